//! The pages as a browser without scripts gets them.

mod fake;
mod pages;
mod site;
