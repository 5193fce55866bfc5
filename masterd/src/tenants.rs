//! Tenants: users who see and use only what was given to them.
//!
//! `limits` says what belongs to a tenant, and what its configurations of ports may hold, also where ports
//! are settled. [`tenant`] are the opcodes, [`fields`] the list. What a tenant may ask for is decided at the
//! door, and by `config::tenancy` once more when its opcode runs.

pub mod fields;
pub mod limits;
pub mod tenant;

#[cfg(test)]
mod tests;
