//! The runtime of the engine's tasks: tokio, and in simulations tokio without its own randomness.

#[cfg(not(any(test, feature = "simulation")))]
pub(crate) use openraft::impls::TokioRuntime as Runtime;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use seeded::Seeded as Runtime;

#[cfg(any(test, feature = "simulation"))]
pub(crate) mod seeded;
#[cfg(any(test, feature = "simulation"))]
mod watch;
