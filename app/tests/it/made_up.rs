//! Twelve tenants and eight models that do not exist.

/// Slug, name, plan, cap in USD, settled and held in cents, calls in 24 hours.
pub(crate) type Tenant = (&'static str, &'static str, &'static str, Option<i64>, i64, i64, i64);

/// What there is.
pub(crate) const TENANTS: [Tenant; 12] = [
    ("stark", "Stark Industries", "enterprise", Some(2_000), 118_402, 912, 61_240),
    ("hooli", "Hooli", "enterprise", Some(2_000), 96_018, 380, 40_912),
    ("northwind", "Northwind Traders", "pro", Some(200), 20_112, 310, 18_201),
    ("globex", "Globex Corporation", "pro", Some(200), 17_004, 560, 12_040),
    ("initech", "Initech", "pro", Some(200), 16_390, 80, 9_420),
    ("umbrella", "Umbrella Research and Pharmaceuticals (EMEA)", "pro", Some(200), 6_610, 0, 6_204),
    ("acme", "Acme", "starter", Some(20), 1_421, 38, 3_002),
    ("soylent", "Soylent", "starter", Some(20), 902, 0, 1_840),
    ("wayne", "Wayne Enterprises", "enterprise", None, 700, 12, 820),
    ("wonka", "Wonka", "starter", Some(20), 211, 0, 0),
    ("tyrell", "Tyrell", "free", Some(1), 31, 0, 210),
    ("cyberdyne", "Cyberdyne", "free", Some(1), 0, 0, 0),
];

/// Name and how much it is used.
pub(crate) const MODELS: [(&str, i64); 8] = [
    ("gemini-2.5-flash", 610),
    ("gpt-5-mini", 240),
    ("claude-haiku-4-5", 96),
    ("gemini-2.5-pro", 71),
    ("gpt-5", 40),
    ("claude-sonnet-4-5", 28),
    ("gemini-2.5-flash-lite", 9),
    ("text-embedding-3-small", 3),
];
