//! Checks on the project itself.
