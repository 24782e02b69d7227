"""Which node and cluster a data directory belongs to: its `meta` file."""

from typing import Final, cast

from minikafka.storage.checked_file import (
    CHECKED_FILE_SIZE_BYTES_MAX,
    decode_checked,
    encode_checked,
)
from minikafka.storage.disk import Disk
from minikafka.storage.errors import WrongDataDirectory

FORMAT_VERSION: Final = 1
"""Of everything in a data directory; any other is refused."""

META_FILE_NAME: Final = "meta"
_META_KIND: Final = "data-directory"


def check_meta(
    disk: Disk, path: str, node_id: int, cluster_id: str | None, new_cluster_id: str
) -> str:
    """Check that a data directory belongs to this node, or claim a new one.

    Args:
        disk: Where it is.
        path: The directory.
        node_id: This broker.
        cluster_id: The cluster it must belong to, None for any.
        new_cluster_id: For a new directory; empty when the cluster is not known yet.

    Returns:
        Its cluster id.

    Raises:
        WrongDataDirectory: it belongs to another cluster or node, or has another format.
        DamagedFile: the file is damaged.
        OSError: the disk failed.
    """
    meta_path = f"{path}/{META_FILE_NAME}"
    if not disk.exists(meta_path):
        owner_cluster_id = new_cluster_id if cluster_id is None else cluster_id
        write_meta(disk, path, node_id, owner_cluster_id)
        return owner_cluster_id
    content = disk.read_file(meta_path, size_bytes_max=CHECKED_FILE_SIZE_BYTES_MAX)
    value = decode_checked(_META_KIND, content, path=meta_path)
    version, *owner = cast("list[object]", value)
    if version != FORMAT_VERSION:
        raise WrongDataDirectory(
            f"{path} has format version {version}, this minikafka writes {FORMAT_VERSION}; use a "
            f"newer minikafka or another --data-dir"
        )
    owner_cluster_id, owner_node_id = cast("tuple[str, int]", owner)
    if owner_node_id != node_id or cluster_id not in {None, owner_cluster_id}:
        raise WrongDataDirectory(
            f"{path} belongs to node {owner_node_id} of cluster {owner_cluster_id!r}, not to node "
            f"{node_id} of cluster {cluster_id or owner_cluster_id!r}; use another --data-dir"
        )
    return owner_cluster_id


def write_meta(disk: Disk, path: str, node_id: int, cluster_id: str) -> None:
    """Write the `meta` file; durable on return. Raises OSError."""
    meta = encode_checked(_META_KIND, [FORMAT_VERSION, cluster_id, node_id])
    disk.replace_file(f"{path}/{META_FILE_NAME}", meta, sync=True)
