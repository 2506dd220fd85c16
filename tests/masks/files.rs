//! Masks as files.
