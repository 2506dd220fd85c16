//! The executors that are compared, with their names.

use epsilab::engine::{AutoExecutor, Executor, FusedExecutor, ReferenceExecutor, TapExecutor};

pub type Executors = Vec<(&'static str, Box<dyn Executor>)>;

/// The executors that training may use. All tests run on each of them.
pub fn fast() -> Executors {
    vec![
        ("TapExecutor", Box::new(TapExecutor::default())),
        ("TapExecutor in chunks", Box::new(TapExecutor::default().with_chunk_size(3))),
        ("FusedExecutor", Box::new(FusedExecutor::default())),
        ("FusedExecutor in chunks", Box::new(FusedExecutor::default().with_chunk_size(3))),
    ]
}

/// The executors that accept user modules.
pub fn for_user_modules() -> Executors {
    let mut executors: Vec<_> =
        fast().into_iter().filter(|(name, _)| name.starts_with("TapExecutor")).collect();
    executors.push(("AutoExecutor", Box::new(AutoExecutor::default())));
    executors
}

/// The executors of [`fast`] and the reference executor.
pub fn all() -> Executors {
    let mut executors = fast();
    executors.push(("ReferenceExecutor", Box::new(ReferenceExecutor)));
    executors
}
