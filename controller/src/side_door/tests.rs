//! Who is let in, and what is left of servers that are gone.

use super::*;
use std::os::unix::net::UnixListener as Listener;

fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn a_door_is_for_its_user_alone_and_goes_with_its_server() {
    let base = private_folder();
    let folder = base.path().join("sysmcp");
    let door = Door::open(std::slice::from_ref(&folder)).await.unwrap();
    assert!(private::why_not_alone(&fs::symlink_metadata(&folder).unwrap()).is_none());
    let mode = fs::symlink_metadata(&door.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(server_of(&door.socket), std::process::id().to_string());
    assert_eq!(names(&folder).len(), 1);
    drop(door);
    assert!(names(&folder).is_empty());
}

#[tokio::test]
async fn sockets_of_servers_that_are_gone_are_removed_and_no_others() {
    let folder = private_folder();
    let stale = folder.path().join("99-0badcafe.sock");
    drop(Listener::bind(&stale).unwrap());
    let alive = folder.path().join("98-0badcafe.sock");
    let _alive = Listener::bind(&alive).unwrap();
    fs::write(folder.path().join("audit.jsonl"), "").unwrap();
    fs::write(folder.path().join(".97-0badcafe.new"), "").unwrap();
    let door = Door::open(&[folder.path().to_owned()]).await.unwrap();
    assert!(!stale.exists() && alive.exists());
    assert_eq!(names(folder.path()).len(), 4, "{:?}", names(folder.path()));
    drop(door);
}

#[tokio::test]
async fn a_folder_of_others_is_not_used_and_the_next_one_is() {
    let open = private_folder();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let link = private_folder();
    let behind_link = link.path().join("link");
    std::os::unix::fs::symlink(link.path(), &behind_link).unwrap();
    let file = link.path().join("file");
    fs::write(&file, "").unwrap();
    for folder in [open.path().to_owned(), behind_link, file.join("below")] {
        Door::open(std::slice::from_ref(&folder)).await.unwrap_err();
        let good = private_folder();
        let door = Door::open(&[folder, good.path().to_owned()]).await.unwrap();
        assert!(door.socket.starts_with(good.path()));
    }
    let long = link.path().join("n".repeat(120));
    assert!(matches!(Door::open(&[long]).await, Err(NoDoor::Listen { .. })));
    assert!(matches!(Door::open(&[]).await, Err(NoDoor::NoFolder)));
}
