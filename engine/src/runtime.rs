//! What the engine's tasks run on: tokio, and in simulations the same without its own chance.

#[cfg(not(any(test, feature = "simulation")))]
pub(crate) use openraft::impls::TokioRuntime as Runtime;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use seeded::Seeded as Runtime;

#[cfg(any(test, feature = "simulation"))]
pub(crate) mod seeded;
#[cfg(any(test, feature = "simulation"))]
mod watch;
