//! Migrations of older versions, recorded in `migrations.txt`.

use flotilla_cases::{check_answers, texts};
use flotilla_framework::registry::Registry;

use super::{
    super::{Cause, Migration, examine, migrate},
    cases,
};
use crate::features::FeatureGates;

/// The v1 text with changes and notices, or the errors.
#[test]
fn a_text_of_an_older_version_is_rewritten_where_it_has_to_be_and_nowhere_else() {
    check_answers(cases("migrations.txt"), |text| match migrate(text, "scheduler.yaml") {
        Ok(Migration { text, changes, notices }) => {
            let changes = changes.iter().map(|change| format!("{}: {}\n", change.line, change.what));
            let notices = notices.iter().map(|notice| format!("{}: notice: {}\n", notice.line, notice.what));
            let end = if text.ends_with('\n') { "" } else { "\\\n" };
            format!("{text}{end}--- changes\n{}", changes.chain(notices).collect::<String>())
        }
        Err(errors) => errors.to_string(),
    });
}

#[test]
fn what_comes_of_a_migration_is_accepted_and_is_not_migrated_again() {
    let mut migrated = 0;
    for (name, text) in texts(cases("migrations.txt")) {
        let Ok(Migration { text, .. }) = migrate(&text, "scheduler.yaml") else { continue };
        let examination = examine(&text, "scheduler.yaml", &FeatureGates::default(), Registry::built_in());
        let invalid = examination.errors.iter().flat_map(|found| &found.errors);
        let invalid: Vec<_> = invalid.filter(|error| error.cause == Cause::Invalid).collect();
        assert!(invalid.is_empty(), "{name}: {invalid:#?}");
        let again = migrate(&text, "scheduler.yaml").expect("v1");
        assert_eq!(again, Migration { text, changes: vec![], notices: vec![] }, "{name}");
        migrated += 1;
    }
    assert!(migrated >= 12, "only {migrated} texts were migrated");
}

#[test]
fn no_text_makes_a_migration_panic_or_lose_a_comment() {
    for (_, text) in texts(cases("migrations.txt")) {
        for (end, _) in text.char_indices() {
            let text = text.get(..end).expect("a boundary");
            let Ok(migration) = migrate(text, "scheduler.yaml") else { continue };
            // Every value with this character is quoted.
            let count =
                |text: &str| text.matches('#').count() - text.matches("'#").count() - text.matches("a #b").count();
            assert_eq!(count(&migration.text), count(text), "{text}");
        }
    }
}
