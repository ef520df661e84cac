"""The paper: training rows, curvature, corrected scores and the distribution of the parameters."""
