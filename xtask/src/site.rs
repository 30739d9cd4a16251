//! The site: the pages' wasm with its script, the style sheet, the icon, each also compressed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use brotli::enc::BrotliEncoderParams;
use wasm_bindgen_cli_support::Bindgen;

use crate::services::files_in;
use crate::setup;
use crate::steps::timed;
use crate::workspace::Workspace;

/// The profile of the wasm for the demo, the tests and the release alike: what is tested ships.
const PROFILE: &str = "wasm-release";
const TARGET: &str = "wasm32-unknown-unknown";
/// Leptos asks for `weir.js`, `weir_bg.wasm` and `weir.css`.
const NAME: &str = "weir";
/// Counts up when these steps change, so that a site made by older ones is made anew.
///
/// There is no wasm-opt among them: Debian's writes the table of references under the wrong index, and no island wakes up.
const STEPS: u32 = 2;
/// What a first visit may download before the islands live; the pages work without.
const WASM_COMPRESSED_BYTES_MAX: u64 = 60_000;

/// Builds the site into `target/site` and gives that folder.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    setup::wasm_target(workspace)?;
    timed("build the site", || {
        let (own, _locked) = workspace.own_folder()?;
        let raw = compile(workspace)?;
        let site = workspace.site();
        let pkg = site.join("pkg");
        bind(&own, &raw, &pkg)?;
        style(&workspace.root.join("style"), &site)?;
        let wasm = pkg.join(format!("{NAME}_bg.wasm"));
        println!("    wasm {} B, compressed {} B", size(&wasm)?, size(&compressed(&wasm))?);
        Ok(site)
    })
}

/// Fails when the wasm has outgrown what a first visit may cost.
pub(crate) fn check_size(site: &Path) -> Result<()> {
    let size = size(&compressed(&site.join(format!("pkg/{NAME}_bg.wasm"))))?;
    if size > WASM_COMPRESSED_BYTES_MAX {
        bail!("the compressed wasm has {size} B, at most {WASM_COMPRESSED_BYTES_MAX} are allowed");
    }
    Ok(())
}

fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo("rustc");
    cargo.args(["--locked", "-p", "app", "--lib", "--features", "hydrate"]);
    cargo.args(["--target", TARGET, "--crate-type", "cdylib", "--profile", PROFILE]);
    if !workspace.signals.run(&mut cargo)?.success() {
        bail!("the pages' wasm does not build");
    }
    Ok(workspace.target.join(TARGET).join(PROFILE).join("app.wasm"))
}

/// Makes the browser's script and wasm of cargo's; nothing when that is the same as the last time.
fn bind(own: &Path, raw: &Path, pkg: &Path) -> Result<()> {
    let bytes = fs::read(raw).with_context(|| format!("no {}", raw.display()))?;
    let stamp = stamp(&bytes);
    let stamp_file = own.join("site.stamp");
    let known = fs::read_to_string(&stamp_file).is_ok_and(|last| last == stamp);
    if known && compressed(&pkg.join(format!("{NAME}_bg.wasm"))).is_file() {
        return Ok(());
    }
    // A run that is killed on the way must not leave a stamp that says all is well.
    let _ = fs::remove_file(&stamp_file);
    let made = own.join("bindgen");
    for old in [&made, &pkg.to_path_buf()] {
        let _ = fs::remove_dir_all(old);
    }
    let mut bindgen = Bindgen::new();
    bindgen.input_bytes(NAME, bytes).web(true)?.typescript(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.omit_default_module_path(true).generate(&made)?;
    put_all(&made, pkg)?;
    fs::write(&stamp_file, stamp)?;
    Ok(())
}

/// The style sheets in the order of their names as one, and beside it the other files as they are.
fn style(style: &Path, site: &Path) -> Result<()> {
    let mut sheet = Vec::new();
    for file in files_in(style, "css")? {
        sheet.extend(fs::read(&file)?);
        sheet.push(b'\n');
    }
    put(&site.join(format!("pkg/{NAME}.css")), &sheet)?;
    for file in files_in(style, "svg")? {
        let name = file.file_name().context("a file without a name")?;
        put(&site.join(name), &fs::read(&file)?)?;
    }
    Ok(())
}

fn put_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let to = to.join(path.file_name().context("a file without a name")?);
        match path.is_dir() {
            true => put_all(&path, &to)?,
            false => put(&to, &fs::read(&path)?)?,
        }
    }
    Ok(())
}

/// Writes a file and its compressed form, unless they are there already: the program that carries
/// the site is built anew when a file's time changes.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) && compressed(path).is_file() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let parameters = BrotliEncoderParams { quality: 11, lgwin: 22, ..Default::default() };
    let mut small = Vec::new();
    brotli::BrotliCompress(&mut &bytes[..], &mut small, &parameters)?;
    fs::write(path, bytes)?;
    fs::write(compressed(path), small)?;
    Ok(())
}

fn compressed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".br");
    name.into()
}

fn size(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).with_context(|| format!("no {}", path.display()))?.len())
}

fn stamp(wasm: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    (wasm, STEPS).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn style_sheets_are_joined_in_the_order_of_their_names() {
        let folder = scratch("style");
        for (name, text) in [("20-page.css", "p{}"), ("10-base.css", "a{}"), ("icon.svg", "<svg/>")]
        {
            fs::write(folder.join(name), text).unwrap();
        }
        let site = folder.join("site");
        style(&folder, &site).unwrap();
        assert_eq!(fs::read_to_string(site.join("pkg/weir.css")).unwrap(), "a{}\np{}\n");
        assert!(site.join("icon.svg.br").is_file());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_compressed_file_unpacks_to_the_file_and_an_unchanged_one_is_not_written_again() {
        let folder = scratch("put");
        let file = folder.join("weir.js");
        let text = "let a = 1;\n".repeat(500);
        put(&file, text.as_bytes()).unwrap();
        let mut unpacked = Vec::new();
        let small = fs::read(compressed(&file)).unwrap();
        brotli::BrotliDecompress(&mut &small[..], &mut unpacked).unwrap();
        assert_eq!(unpacked, text.as_bytes());
        assert!(small.len() < text.len() / 10);

        fs::write(compressed(&file), "kept").unwrap();
        put(&file, text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(compressed(&file)).unwrap(), "kept");
        put(&file, b"other").unwrap();
        assert_ne!(fs::read(compressed(&file)).unwrap(), b"kept");
        fs::remove_dir_all(&folder).unwrap();
    }
}
