"""Economics of one set of parameters, as pure formulas: chances, deterrence, capture, costs of attacks, replay of disputes."""
