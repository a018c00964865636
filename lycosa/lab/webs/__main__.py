"""The server of `lycosa.lab.webs.serving`, as a process."""

import sys

from lycosa.lab.webs.serving import main

main(sys.argv[1:])
