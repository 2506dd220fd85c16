//! Grids in small: counting, resuming, arithmetic, refusals.
