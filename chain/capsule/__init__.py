"""Evidence capsules: a capsule is one file that shows a receipt and its verdict to somebody who has neither the chain nor DA."""
