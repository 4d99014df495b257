"""The court of `chain/contracts` as a pure model: the same steps, the same money, no chain (design sections 9 and 13)."""
