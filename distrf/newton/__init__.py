"""Linear models with smooth losses by few passes: quasi-Newton steps that the Hessian of a sample preconditions."""
