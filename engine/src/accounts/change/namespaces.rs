//! Changes of namespaces and their states.

use super::super::Accounts;
use super::super::name::AccountId;
use super::super::object::{Object, ReadOnly, check_namespace};
use super::super::rights::Rights;
use crate::api::Db;
use crate::error::{Denied, Result, Usage};

impl Accounts {
    /// Makes a namespace that is not read-only.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Denied::SystemTree`], [`Usage::BadObject`], [`Usage::NamespaceExists`], those of
    /// writing.
    pub(crate) fn create_namespace(
        &self,
        db: &Db,
        acting: AccountId,
        namespace: &str,
    ) -> Result<()> {
        check_namespace(namespace)?;
        let object = Object::Namespace(namespace.to_owned());
        if namespace == "*" {
            let why = "a namespace named * would be taken for everything";
            return Err(Usage::BadObject { object: object.to_string(), why }.into());
        }
        self.edit(db, acting, |change| {
            change.needs(&object, Rights::CREATE)?;
            if change.directory.has_namespace(namespace) {
                return Err(Usage::NamespaceExists(namespace.to_owned()).into());
            }
            change.draft.set_namespace(namespace, Some(ReadOnly::No));
            Ok(())
        })
    }

    /// Forgets a namespace and its state. Its trees and what was granted on it stay; whether it is empty is for the
    /// caller, who holds it exclusively, to see.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Denied::NamespaceReadOnly`], [`Denied::SystemTree`], [`Usage::NoSuchNamespace`],
    /// [`Usage::BadObject`] for the unnamed one, those of writing.
    pub(crate) fn drop_namespace(
        &self,
        db: &Db,
        acting: AccountId,
        namespace: &str,
        publish: impl FnOnce(),
    ) -> Result<()> {
        check_namespace(namespace)?;
        let object = Object::Namespace(namespace.to_owned());
        self.change(db, Some(acting), publish, |change| {
            change.needs(&object, Rights::DROP)?;
            if namespace.is_empty() {
                let why = "the namespace of the trees without one is always there";
                return Err(Usage::BadObject { object: object.to_string(), why }.into());
            }
            let Some(&state) = change.content().namespaces.get(namespace) else {
                return Err(Usage::NoSuchNamespace(namespace.to_owned()).into());
            };
            if state != ReadOnly::No {
                let (namespace, state) = (namespace.to_owned(), state.to_string());
                return Err(Denied::NamespaceReadOnly { namespace, state }.into());
            }
            change.draft.set_namespace(namespace, None);
            Ok(())
        })
    }

    /// Sets the state of a namespace. `publish` is called when the change is durable, and before any session can see that
    /// the epoch moved; not if nothing changed.
    ///
    /// # Errors
    /// [`Denied::NeedsRights`], [`Denied::SystemTree`], [`Usage::BadObject`], [`Usage::NoSuchNamespace`], those of
    /// writing. `publish` was not called then.
    pub(crate) fn set_namespace_state(
        &self,
        db: &Db,
        acting: AccountId,
        namespace: &str,
        state: ReadOnly,
        publish: impl FnOnce(),
    ) -> Result<()> {
        check_namespace(namespace)?;
        let object = Object::Namespace(namespace.to_owned());
        self.change(db, Some(acting), publish, |change| {
            let before = change.directory.namespace_state(namespace);
            if before == ReadOnly::Super || state == ReadOnly::Super {
                change.needs_super()?;
            } else if change.needs_super().is_err() {
                change.needs(&object, Rights::MAINTENANCE)?;
            }
            if !change.directory.has_namespace(namespace) {
                return Err(Usage::NoSuchNamespace(namespace.to_owned()).into());
            }
            change.draft.set_namespace(namespace, Some(state));
            Ok(())
        })
    }
}
