//! How often each bench does its work; `xtask` reads it here too, to tell what one turn takes.

/// Enough that what happens once, as a first page of the allocator, is below a hundredth of all.
pub(crate) const TURNS: u64 = 200;
