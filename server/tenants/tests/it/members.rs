//! People who sign in.

use tenants::TenantsError;
use tenants::member::{self, NewMember, Role, Side};
use tenants::password::Passwords;

use crate::world::World;

const PASSWORD: &str = "correct horse battery";

fn owner(email: &str) -> NewMember {
    NewMember {
        email: email.to_owned(),
        password: PASSWORD.into(),
        role: Role::Owner,
        tenant: None,
    }
}

#[tokio::test]
async fn a_person_signs_in_with_address_and_password() {
    let world = World::new().await;
    let (pool, passwords) = (&world.pool, Passwords::new());
    assert!(!member::owner_exists(pool).await.unwrap());
    let id = member::create(pool, &passwords, owner(" Ada@Example.com ")).await.unwrap();
    assert!(member::owner_exists(pool).await.unwrap());
    let signed_in = async |email: &str, password: &str| {
        let found = member::verify_password(pool, &passwords, email, password.into()).await;
        found.unwrap().map(|member| member.id)
    };
    assert_eq!(signed_in("ada@example.COM", PASSWORD).await, Some(id));
    assert_eq!(signed_in("ada@example.com", "correct horse batterz").await, None);
    assert_eq!(signed_in("nobody@example.com", PASSWORD).await, None);

    member::set_disabled(pool, id, Some(world.now())).await.unwrap();
    assert_eq!(signed_in("ada@example.com", PASSWORD).await, None);
    assert!(!member::owner_exists(pool).await.unwrap());
    member::set_disabled(pool, id, None).await.unwrap();
    member::set_password(pool, &passwords, id, "another long password".into()).await.unwrap();
    assert_eq!(signed_in("ada@example.com", PASSWORD).await, None);
    assert_eq!(signed_in("ada@example.com", "another long password").await, Some(id));
    let kept: String =
        sqlx::query_scalar("select users::text from users").fetch_one(pool).await.unwrap();
    assert!(kept.contains("$argon2id$v=19$m=19456,t=2,p=1$") && !kept.contains("another"));
}

#[tokio::test]
async fn an_unknown_address_costs_what_a_wrong_password_costs() {
    let world = World::new().await;
    let (pool, passwords) = (&world.pool, Passwords::new());
    member::create(pool, &passwords, owner("ada@example.com")).await.unwrap();
    // The work is counted and not timed: a busy machine must not fail the test. That nobody's hash has the same
    // parameters as everybody's is a test beside it.
    for (email, compared) in [("ada@example.com", 1), ("nobody@example.com", 2)] {
        let wrong = "a wrong long password".into();
        let found = member::verify_password(pool, &passwords, email, wrong).await.unwrap();
        assert!(found.is_none());
        assert_eq!(passwords.compared(), compared, "{email}");
    }
}

#[tokio::test]
async fn who_cannot_be_let_in_is_told_why() {
    let world = World::new().await;
    let (pool, passwords) = (&world.pool, Passwords::new());
    member::create(pool, &passwords, owner("ada@example.com")).await.unwrap();
    let refused = async |change: &dyn Fn(&mut NewMember)| {
        let mut new = owner("bob@example.com");
        change(&mut new);
        member::create(pool, &passwords, new).await.unwrap_err()
    };
    let taken = refused(&|new| new.email = "ADA@example.com".to_owned()).await;
    assert!(matches!(taken, TenantsError::Conflict { what: "e-mail address" }), "{taken:?}");
    for (what, change) in [
        (
            "e-mail address",
            &(|new: &mut NewMember| new.email = "bob".to_owned()) as &dyn Fn(&mut NewMember),
        ),
        ("password", &|new: &mut NewMember| new.password = "short".into()),
        ("role", &|new: &mut NewMember| new.role = Role::TenantOwner),
        ("role", &|new: &mut NewMember| new.tenant = Some(domain::id::TenantId(1))),
    ] {
        let error = refused(change).await;
        assert!(matches!(error, TenantsError::Invalid { what: w, .. } if w == what), "{error:?}");
    }
    let error = refused(&|new| {
        new.role = Role::TenantDev;
        new.tenant = Some(domain::id::TenantId(999));
    })
    .await;
    assert!(matches!(error, TenantsError::NotFound { what: "tenant" }), "{error:?}");
}

#[tokio::test]
async fn each_side_lists_its_own_people() {
    let world = World::new().await;
    let (pool, passwords) = (&world.pool, Passwords::new());
    let ada = member::create(pool, &passwords, owner("ada@example.com")).await.unwrap();
    let mut new = owner("dev@acme.example");
    (new.role, new.tenant) = (Role::TenantDev, Some(world.tenant));
    let dev = member::create(pool, &passwords, new).await.unwrap();
    let ids = async |side| {
        let found = member::list(pool, side, None, 10).await.unwrap();
        found.into_iter().map(|member| member.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(Side::Operators).await, [ada]);
    assert_eq!(ids(Side::Tenant(world.tenant)).await, [dev]);

    member::set_role(pool, dev, Role::TenantBilling).await.unwrap();
    member::touch(pool, dev, world.now()).await.unwrap();
    member::touch(pool, dev, world.now().plus_ms(-1)).await.unwrap();
    let found = member::find(pool, dev).await.unwrap();
    assert_eq!((found.role, found.last_seen_at), (Role::TenantBilling, Some(world.now())));
    let crossed = member::set_role(pool, dev, Role::Owner).await;
    assert!(matches!(crossed, Err(TenantsError::Invalid { what: "role", .. })), "{crossed:?}");
}
