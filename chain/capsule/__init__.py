"""Evidence capsules: one file that shows a receipt and its verdict to somebody who has neither the chain nor DA."""
