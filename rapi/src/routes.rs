//! Routes with what they are for: what is served is what `/openapi.json` and `docs/rapi.md` describe.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};

use crate::state::Front;

/// A method of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// The path, with names of its parameters in braces.
    pub path: &'static str,
    /// The method, in lower case as OpenAPI has it.
    pub method: &'static str,
    /// The purpose of the route, in a line.
    pub summary: &'static str,
}

impl Described {
    /// Its row in `docs/rapi.md`.
    pub fn row(&self) -> String {
        let Self { path, method, summary } = self;
        format!("| `{path}` | {} | {summary} |", method.to_uppercase())
    }

    /// The names of the parameters in the path.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
    }
}

/// Routes that are put together.
#[derive(Debug, Default)]
pub struct Routes {
    router: Router<Arc<Front>>,
    described: Vec<Described>,
}

macro_rules! methods {
    ($($method:ident,)+) => {
        $(#[doc = concat!("Adds `", stringify!($method), "` of a path.")]
        pub fn $method<T: 'static>(
            self,
            path: &'static str,
            summary: &'static str,
            handler: impl Handler<T, Arc<Front>>,
        ) -> Self {
            let described = Described { path, method: stringify!($method), summary };
            self.with(described, $method(handler))
        })+
    };
}

impl Routes {
    methods! { get, put, post, delete, }

    fn with(mut self, described: Described, method: MethodRouter<Arc<Front>>) -> Self {
        self.described.push(described);
        Self { router: self.router.route(described.path, method), ..self }
    }

    /// All routes, in the order in which they were added.
    pub fn described(&self) -> &[Described] {
        &self.described
    }

    /// The routes themselves.
    pub fn into_router(self) -> Router<Arc<Front>> {
        self.router
    }
}
