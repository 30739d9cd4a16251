fn keys(client: &redis::Client, pattern: &str) -> Vec<String> {
    let mut connection = client.get_connection().unwrap();
    redis::cmd("KEYS").arg(pattern).query(&mut connection).unwrap()
}

#[test]
fn a_tests_keys_go_with_it_and_no_others() {
    let (one, two) = (testkit::redis(), testkit::redis());
    assert_ne!(one.prefix, two.prefix);
    let client = one.client();
    let mut connection = client.get_connection().unwrap();
    for key in [format!("{}{{7}}:a", one.prefix), format!("{}{{7}}:a", two.prefix)] {
        redis::cmd("SET").arg(key).arg(1).exec(&mut connection).unwrap();
    }
    let gone = format!("{}*", one.prefix);
    drop(one);
    assert!(keys(&client, &gone).is_empty());
    assert_eq!(keys(&client, &format!("{}*", two.prefix)).len(), 1);
}
