//! The HTTPS front door. It reaches the master only through `luxi`.
//!
//! Nothing is served yet: the crate holds its place, and the test of the crates' direction holds
//! its boundary.
