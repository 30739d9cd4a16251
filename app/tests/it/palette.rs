//! The colours of the style sheet as numbers: contrasts for eyes, distances for colour-blind eyes.
#![expect(clippy::float_arithmetic, reason = "colour science is done in fractions")]

use std::path::{Path, PathBuf};

type Linear = [f64; 3];

/// Smallest contrast of a mark on its surface (WCAG 1.4.11), and of text (WCAG 1.4.3).
const MARK_CONTRAST: f64 = 3.0;
const TEXT_CONTRAST: f64 = 4.5;
/// Smallest distance of two series in CIELAB.
const SERIES_DISTANCE: f64 = 30.0;
/// What a person without red or green cones sees (Machado, Oliveira and Fernandes, 2009).
const PROTANOPIA: [Linear; 3] = [
    [0.152_286, 1.052_583, -0.204_868],
    [0.114_503, 0.786_281, 0.099_216],
    [-0.003_882, -0.048_116, 1.051_998],
];
const DEUTERANOPIA: [Linear; 3] = [
    [0.367_322, 0.860_646, -0.227_968],
    [0.280_085, 0.672_501, 0.047_413],
    [-0.011_820, 0.042_940, 0.968_881],
];

fn style_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../style");
    let entries = std::fs::read_dir(folder).expect("the folder of style sheets");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "css")).collect()
}

fn tokens() -> String {
    let files = style_files();
    let file = files.iter().find(|path| path.ends_with("20-tokens.css")).expect("the tokens");
    std::fs::read_to_string(file).expect("text")
}

/// A token's colour in the light (0) or dark (1) theme.
fn colour(tokens: &str, name: &str, theme: usize) -> Linear {
    let (_, rest) = tokens.split_once(&format!("--{name}: ")).expect(name);
    let (value, _) = rest.split_once(';').expect(name);
    let mut hexes = value.split('#').skip(1);
    let hex = if value.starts_with("light-dark") { hexes.nth(theme) } else { hexes.next() };
    let hex = hex.expect(name);
    let channel = |at: usize| {
        let byte = u8::from_str_radix(&hex[at..at + 2], 16).expect("a colour");
        let part = f64::from(byte) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    [channel(0), channel(2), channel(4)]
}

fn luminance([red, green, blue]: Linear) -> f64 {
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: Linear, two: Linear) -> f64 {
    let (one, two) = (luminance(one), luminance(two));
    (one.max(two) + 0.05) / (one.min(two) + 0.05)
}

fn seen(by: &[Linear; 3], colour: Linear) -> Linear {
    by.map(|row| {
        row.iter().zip(colour).map(|(weight, part)| weight * part).sum::<f64>().clamp(0.0, 1.0)
    })
}

fn lab([red, green, blue]: Linear) -> Linear {
    let x = (0.412_456_4 * red + 0.357_576_1 * green + 0.180_437_5 * blue) / 0.950_47;
    let y = 0.212_672_9 * red + 0.715_152_2 * green + 0.072_175 * blue;
    let z = (0.019_333_9 * red + 0.119_192 * green + 0.950_304_1 * blue) / 1.088_83;
    let curve =
        |part: f64| if part > 0.008_856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 };
    let (x, y, z) = (curve(x), curve(y), curve(z));
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

fn distance(one: Linear, two: Linear) -> f64 {
    let (one, two) = (lab(one), lab(two));
    one.iter().zip(two).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn series_are_seen_on_the_surface_and_told_apart_without_red_or_green() {
    let tokens = tokens();
    for theme in [0, 1] {
        let surface = colour(&tokens, "surface", theme);
        let series: Vec<Linear> =
            (0..6).map(|number| colour(&tokens, &format!("series-{number}"), theme)).collect();
        for (number, one) in series.iter().enumerate() {
            let seen_on = contrast(*one, surface);
            assert!(seen_on >= MARK_CONTRAST, "series {number}, theme {theme}: {seen_on}");
            for (other, two) in series.iter().enumerate().skip(number + 1) {
                let apart = [
                    distance(*one, *two),
                    distance(seen(&PROTANOPIA, *one), seen(&PROTANOPIA, *two)),
                    distance(seen(&DEUTERANOPIA, *one), seen(&DEUTERANOPIA, *two)),
                ];
                let nearest = apart.into_iter().fold(f64::MAX, f64::min);
                assert!(
                    nearest >= SERIES_DISTANCE,
                    "{number} and {other}, theme {theme}: {apart:?}"
                );
            }
        }
    }
}

#[test]
fn text_is_readable_on_every_ground_it_stands_on() {
    let tokens = tokens();
    let pairs = [
        ("text", "ground"),
        ("text", "surface"),
        ("text", "sunken"),
        ("text", "hover"),
        ("muted", "ground"),
        ("muted", "surface"),
        ("muted", "sunken"),
        ("muted", "hover"),
        ("accent", "ground"),
        ("accent", "surface"),
        ("accent", "hover"),
        ("accent", "accent-ground"),
        ("on-accent", "accent-fill"),
        ("on-accent", "danger-fill"),
        ("ok", "ok-ground"),
        ("warn", "warn-ground"),
        ("warn", "surface"),
        ("danger", "danger-ground"),
        ("danger", "surface"),
        ("text", "danger-ground"),
        ("text", "accent-ground"),
    ];
    for theme in [0, 1] {
        for (text, ground) in pairs {
            let found = contrast(colour(&tokens, text, theme), colour(&tokens, ground, theme));
            assert!(found >= TEXT_CONTRAST, "{text} on {ground}, theme {theme}: {found}");
        }
        for mark in ["line-strong", "accent", "fill-warn", "fill-danger"] {
            let found = contrast(colour(&tokens, mark, theme), colour(&tokens, "surface", theme));
            assert!(found >= MARK_CONTRAST, "{mark}, theme {theme}: {found}");
        }
    }
}

#[test]
fn the_style_sheet_loads_nothing_and_stays_small() {
    let mut bytes = 0;
    for file in style_files() {
        let text = std::fs::read_to_string(&file).expect("text");
        for loads in ["@import", "url(", "http:", "https:", "@font-face"] {
            assert!(!text.contains(loads), "{}: {loads}", file.display());
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count(), "{}", file.display());
        assert!(text.contains("@layer "), "{}: outside all layers it would win", file.display());
        bytes += text.len();
    }
    assert!(bytes < 60_000, "{bytes} bytes");
}
