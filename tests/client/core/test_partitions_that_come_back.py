"""A partition is taken away and given back while what was asked about it is under way."""

from minikafka_client.types import TopicPartition
from tests.client.core.fetcher_world import World, config
from tests.client.core.sender_world import TOPIC


def test_the_answer_to_an_older_assignments_fetch_is_not_taken_for_the_new_ones() -> None:
    world = World(settings=config())
    world.assign(0)
    world.recover()
    world.answer(1)  # records are here, and the next fetch is under way
    assert world.reader(0).fetch_offset > 0
    del world.fetcher.readers[TopicPartition(TOPIC, 0)]  # revoked
    world.assign(0, 0)  # given back: nothing was committed
    world.answer(1)  # the answer to the old assignment's fetch
    while world.in_flight[1] and not world.reader(0).fetched:
        world.answer(1)
    assert world.take()[0].offset == 0
