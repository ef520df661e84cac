"""RibbonRegressor, RibbonClassifier, RibbonCV and what they share."""
