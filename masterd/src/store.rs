//! The store at rest, in files. [`bootstrap`] begins one, [`export`] and [`import`] move it. [`upgrade`]
//! tells whether the software may be replaced. `lock` keeps all of them and the daemon apart.

pub mod bootstrap;
pub mod export;
pub mod import;
pub(crate) mod lock;
pub mod upgrade;
