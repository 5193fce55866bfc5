//! Power cuts on real file systems. The file system ends at a random moment of work, is mounted again as
//! after a boot, and holds all that was acknowledged.
//!
//! [`store`] cuts below the store alone, hundreds of times; [`master`] below the real master with
//! its clients. The moment at which a cut begins is noted before it. Later acknowledgements are not
//! counted, since a file system that has ended answers some requests as if it lived.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test says what it saw")]

mod master;
mod store;
