//! The package's promises, kept on a real PostgreSQL.

// The attribute tells clippy that the modules' helpers, too, may fail by panicking.
#[cfg(test)]
mod catalog;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod identify;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod members;
#[cfg(test)]
mod records;
#[cfg(test)]
mod slow_line;
#[cfg(test)]
mod world;
