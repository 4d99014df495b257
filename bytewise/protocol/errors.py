"""Every error of ours by name. Branches: `branches`; rules: `rules_of_records` (R-01 to R-28), `rules_of_actors` (R-30 and up),
`rules_of_evidence` (R-70 and up); the words that tell causes of one rule apart: `reasons`.

A new rule is a class with the next free number at the end of its section there, and a line in `docs/reference/protocol.md`.
"""

from bytewise.protocol.branches import *  # noqa: F403
from bytewise.protocol.rules_of_actors import *  # noqa: F403
from bytewise.protocol.rules_of_evidence import *  # noqa: F403
from bytewise.protocol.rules_of_records import *  # noqa: F403
