//! What the other packages' tests rely on.

// The attribute tells clippy that the modules' helpers, too, may fail by panicking.
#[cfg(test)]
mod database;
#[cfg(test)]
mod redis;
