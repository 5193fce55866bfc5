//! Power cuts on real file systems: the file system ends at a random moment of work, is mounted
//! again as after a boot, and holds all that was acknowledged.
//!
//! [`store`] cuts below the store alone, hundreds of times; [`master`] below the real master with
//! its clients. The moment at which a cut begins is noted before it: what is acknowledged after
//! that is not counted, since a file system that has ended answers some requests as if it lived.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test says what it saw")]

mod master;
mod store;
