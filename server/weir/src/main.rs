//! The program `weir`.

use std::process::ExitCode;

fn main() -> ExitCode {
    weir::cli::main()
}
