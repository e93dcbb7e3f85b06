"""`python -m configtron`."""

from configtron.cli import main

main()
