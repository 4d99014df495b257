"""Evidence capsules: a capsule is one file that proves how the dispute about a receipt ended, or whether an undisputed receipt is
final. The reader of a capsule needs neither the chain nor DA."""
