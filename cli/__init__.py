"""The `bytewise` command. Its commands have the form `bytewise NOUN VERB`.

`cli.tree` lists all commands, and names for each the function that runs it.
"""
