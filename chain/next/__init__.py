"""Client of the contracts that replace the thin ones (`chain/contracts/next`); moved over `chain` when the network switches."""
