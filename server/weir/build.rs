//! A new migration is a change of this package: the folder is compiled in.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}
