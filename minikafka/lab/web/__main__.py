"""Build the page into a folder: ``python -m minikafka.lab.web FOLDER [PYODIDE]``."""

import sys
from pathlib import Path

from .bundle import BundleError
from .site import SiteError, build_site

if __name__ == "__main__":
    if len(sys.argv) not in {2, 3}:
        sys.exit("usage: python -m minikafka.lab.web FOLDER [PYODIDE]")
    try:
        build_site(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) == 3 else None)
    except (SiteError, BundleError, OSError) as error:
        sys.exit(f"minikafka.lab.web: {error}")
    sys.stdout.write(f"open {Path(sys.argv[1]) / 'index.html'}\n")
