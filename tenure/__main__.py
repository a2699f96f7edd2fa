"""`python -m tenure`: the command line."""

from tenure.cli.main import main

main()
