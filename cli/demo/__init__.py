"""`bytewise demo`: runs a whole network on one machine and shows that it catches frauds.

Read the modules in this order: `plan` (actors and numbers), `site` (files and ports), `processes`, `build` (models, keys, chain),
`actors` (settings of each process), `client` (sends requests), `director` (makes two members fail), `facts` (checks the result on
the chain), `run` (the demo itself). `containers` makes the files of the same network for Docker Compose.
"""
