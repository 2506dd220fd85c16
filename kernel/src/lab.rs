pub use epsilab::*;
