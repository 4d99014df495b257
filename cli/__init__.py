"""The `bytewise` command. Commands have the form `bytewise NOUN VERB`. `cli.tree` lists them, and each noun has a module or
folder."""
