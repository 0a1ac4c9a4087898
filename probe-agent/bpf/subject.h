/*
 * What a system call is about: the file behind a descriptor, a path, a peer, a lock.
 *
 * A subject is a key of a few words. What a key is called is written down once, when it is seen first,
 * in `subject_names`; a thread keeps the keys of descriptors that it used last, so that most calls cost two
 * reads of kernel memory. The order of members is that of probe-agent/src/instruments/syscall_trace/ebpf/.
 */
#pragma once

#include "kernel.h"

enum subject_kind {
	SUBJECT_NONE = 0,
	/* a: number of the inode, b: device and hash of its name, c: its mode. Has a name. */
	SUBJECT_FILE = 1,
	/* A path as it was given. a: its hash, b: of where it begins, c: its length. Has a name. */
	SUBJECT_PATH = 2,
	/* a, b: address of the peer, c: port, type of socket and whose port it is. */
	SUBJECT_INET = 3,
	SUBJECT_INET6 = 4,
	/* a: of the address, or the inode's number, c: whether it is an address, which has a name then. */
	SUBJECT_UNIX = 5,
	/* a: number of the inode. */
	SUBJECT_PIPE = 6,
	/* a: start of its name, b: process and descriptor. */
	SUBJECT_ANONYMOUS = 7,
	/* a: address, b: process. */
	SUBJECT_FUTEX = 8,
	/* a: process that is waited for, 0 for any. */
	SUBJECT_CHILD = 9,
	/* Any other socket. a: number of the inode, c: family. */
	SUBJECT_SOCKET = 10,
	/* There were too many. */
	SUBJECT_NO_ROOM = 11,
};

/* Whose port is in `c`. */
enum { PORT_OF_PEER = 0, PORT_IS_OWN = 1, PORT_LISTENS = 2, PORT_UNKNOWN = 3 };

struct subject {
	u64 a, b;
	u32 c;
	u32 kind;
};

enum { NAME_IS_COMPONENTS = 1, NAME_IS_TEXT = 2 };

#define NAME_BYTES 512
#define COMPONENT_BYTES 128
#define MOST_COMPONENTS 24

struct subject_name {
	/* Of a path that was given: where it begins. */
	struct subject base;
	u32 bytes;
	u32 device;
	u16 form;
	u16 is_cut;
	u32 padding;
	/* Components of a path from the last to the first, each with a NUL behind; or a text. */
	char text[NAME_BYTES];
};

struct {
	MAP(HASH, 8192);
	KEY(struct subject);
	VALUE(struct subject_name);
} subject_names SEC(".maps");

struct {
	/* One for what is in a file system, one for what is given. */
	MAP(PERCPU_ARRAY, 2);
	KEY(u32);
	VALUE(struct subject_name);
} name_room SEC(".maps");

/* A descriptor that a thread used, and what it was. */
struct slot {
	struct file *file;
	struct dentry *dentry;
	struct subject subject;
	u32 fd;
	u32 padding;
};

#define SLOTS 8

#define AT_FDCWD -100
#define ANON_INODE_FS_MAGIC 0x09041934
#define PIPEFS_MAGIC 0x50495045

INLINE struct subject_name *empty_name(u32 place)
{
	struct subject_name *name = bpf_map_lookup_elem(&name_room, &place);
	if (!name)
		return NULL;
	name->base = (struct subject){};
	name->bytes = 0;
	name->device = 0;
	name->form = 0;
	name->is_cut = 0;
	name->padding = 0;
	return name;
}

/* Up from a name to the root that the process has, across mounts. */
ONCE int write_components(struct subject_name *name, u64 of_dentry, u64 of_mount)
{
	struct dentry *dentry = (void *)of_dentry;
	struct vfsmount *mount = (void *)of_mount;
	if (!name)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct fs_struct *fs = task->fs;
	struct dentry *root = NULL;
	struct vfsmount *root_mount = NULL;
	if (fs) {
		root = GET(fs, root.dentry);
		root_mount = GET(fs, root.mnt);
	}
	name->form = NAME_IS_COMPONENTS;
	name->is_cut = 1;
	for (int i = 0; i < MOST_COMPONENTS; i++) {
		if (dentry == root && mount == root_mount) {
			name->is_cut = 0;
			break;
		}
		struct dentry *top = GET(mount, mnt_root);
		struct dentry *above = GET(dentry, d_parent);
		if (dentry == top || dentry == above) {
			/* `struct mount` is around the part of it that is told to others. */
			struct mount *whole = NULL;
			u64 inside = __builtin_preserve_field_info(whole->mnt, 0);
			whole = (void *)mount - inside;
			struct mount *parent = GET(whole, mnt_parent);
			if (dentry != top || parent == whole) {
				/* The top of everything, or of what no longer is mounted. */
				name->is_cut = dentry != top;
				break;
			}
			dentry = GET(whole, mnt_mountpoint);
			mount = (void *)parent + inside;
			continue;
		}
		/* Read back each time, so that the verifier does not follow every length that it may have. */
		u32 bytes = name->bytes;
		if (bytes > NAME_BYTES - COMPONENT_BYTES)
			break;
		const unsigned char *from = GET(dentry, d_name.name);
		long read = bpf_probe_read_kernel_str(&name->text[bytes], COMPONENT_BYTES, from);
		if (read <= 0 || read > COMPONENT_BYTES)
			break;
		name->bytes = bytes + read;
		dentry = above;
	}
	return 0;
}

/* Where something is in a file system, for its name. */
struct place {
	struct dentry *dentry;
	struct vfsmount *mount;
	u32 device;
	u32 padding;
};

/* Writes down what a key is called, unless that was done before. */
INLINE void name_file(struct subject *subject, struct place *place)
{
	if (bpf_map_lookup_elem(&subject_names, subject))
		return;
	struct subject_name *name = empty_name(0);
	if (!name)
		return;
	write_components(name, (u64)place->dentry, (u64)place->mount);
	name->device = place->device;
	bpf_map_update_elem(&subject_names, subject, name, BPF_NOEXIST);
}

/* The key of what has a name in a file system. */
INLINE void file_subject(struct subject *subject, struct dentry *dentry, struct inode *inode, u32 mode)
{
	struct super_block *super = GET(inode, i_sb);
	subject->kind = SUBJECT_FILE;
	subject->a = GET(inode, i_ino);
	subject->b = (u64)GET(super, s_dev) << 32 | GET(dentry, d_name.hash);
	subject->c = mode;
}

/* The key of a path: where it is in no file system yet, or was not opened. */
ONCE u64 hash_of(struct subject_name *name)
{
	if (!name)
		return 0;
	const char *text = name->text;
	u32 bytes = name->bytes;
	u64 hash = 0xcbf29ce484222325ULL ^ bytes;
	for (u32 i = 0; i < NAME_BYTES / 8; i++) {
		if (i * 8 >= bytes)
			break;
		/* Of the two bounds that a compiler sees here, the verifier of 6.1 follows neither. */
		u32 at = i * 8;
		HIDE_FROM_COMPILER(at);
		u64 word = *(const u64 *)(text + (at & (NAME_BYTES - 8)));
		u32 left = bytes - i * 8;
		/* What is behind the end is of an earlier name. */
		if (left < 8)
			word &= (1ULL << (left * 8)) - 1;
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash;
}

INLINE bool inet_subject(struct subject *subject, struct sock *sock, u32 type)
{
	u16 family = GET(sock, __sk_common.skc_family);
	u16 peer = __builtin_bswap16(GET(sock, __sk_common.skc_dport));
	u16 own = GET(sock, __sk_common.skc_num);
	u32 whose = PORT_OF_PEER, port = peer;
	if (family == AF_INET6) {
		READ_INTO(*(struct in6_addr *)subject, sock, __sk_common.skc_v6_daddr);
		subject->kind = SUBJECT_INET6;
	} else {
		subject->a = GET(sock, __sk_common.skc_daddr);
		subject->kind = SUBJECT_INET;
	}
	if (!peer) {
		whose = own ? PORT_LISTENS : PORT_UNKNOWN;
		port = own;
	} else if (own && own < 32768 && peer >= 32768) {
		/* A client's port is another one each time, and says nothing. */
		whose = PORT_IS_OWN;
		port = own;
	}
	subject->c = port | (type & 0xff) << 16 | whose << 24;
	return peer != 0;
}

INLINE bool unix_subject(struct subject *subject, struct sock *sock, u64 inode)
{
	struct unix_sock *own = (void *)sock;
	struct unix_address *address = GET(own, addr);
	if (!address) {
		struct sock *peer = GET(own, peer);
		if (peer)
			address = GET((struct unix_sock *)peer, addr);
	}
	subject->kind = SUBJECT_UNIX;
	subject->a = inode;
	int length = 0;
	if (address)
		length = GET(address, len);
	if (length <= 2)
		return false;
	subject->a = (u64)address;
	subject->c = 1;
	if (bpf_map_lookup_elem(&subject_names, subject))
		return true;
	struct subject_name *name = empty_name(0);
	if (!name)
		return true;
	u32 bytes = (u32)(length - 2) & 127;
	name->form = NAME_IS_TEXT;
	bpf_probe_read_kernel(name->text, bytes, ADDRESS(address, name) + 2);
	name->bytes = bytes;
	bpf_map_update_elem(&subject_names, subject, name, BPF_NOEXIST);
	return true;
}

/* What a file is, and whether that holds for as long as it is open. */
INLINE bool subject_of_file(struct subject *subject, struct place *place, struct file *file, u32 fd)
{
	struct inode *inode = GET(file, f_inode);
	u32 mode = GET(inode, i_mode);
	struct super_block *super = GET(inode, i_sb);
	unsigned long magic = GET(super, s_magic);
	if ((mode & S_IFMT) == S_IFSOCK) {
		struct socket *socket = GET(file, private_data);
		struct sock *sock = GET(socket, sk);
		if (!sock)
			return false;
		u16 family = GET(sock, __sk_common.skc_family);
		if (family == AF_INET || family == AF_INET6)
			return inet_subject(subject, sock, (u16)GET(socket, type));
		if (family == AF_UNIX)
			return unix_subject(subject, sock, GET(inode, i_ino));
		subject->kind = SUBJECT_SOCKET;
		subject->a = GET(inode, i_ino);
		subject->c = family;
		return true;
	}
	if (magic == PIPEFS_MAGIC) {
		subject->kind = SUBJECT_PIPE;
		subject->a = GET(inode, i_ino);
		return true;
	}
	struct dentry *dentry = GET(file, f_path.dentry);
	if (magic == ANON_INODE_FS_MAGIC) {
		subject->kind = SUBJECT_ANONYMOUS;
		const unsigned char *name = GET(dentry, d_name.name);
		bpf_probe_read_kernel(&subject->a, 8, name);
		subject->b = bpf_get_current_pid_tgid() >> 32 << 32 | fd;
		return true;
	}
	file_subject(subject, dentry, inode, mode);
	place->dentry = dentry;
	place->mount = GET(file, f_path.mnt);
	place->device = GET(inode, i_rdev);
	return true;
}

INLINE struct file *file_of(struct task_struct *task, u32 fd)
{
	struct files_struct *files = task->files;
	if (!files)
		return NULL;
	struct fdtable *table = files->fdt;
	if (!table || fd >= table->max_fds)
		return NULL;
	struct file *file = NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

/* What a descriptor is of. That a file and its name are at the same addresses as before is taken for the
 * same: a thread's own `close` forgets it. */
INLINE void fd_subject(struct subject *subject, struct place *place, struct slot *slots, u32 fd)
{
	struct file *file = file_of(bpf_get_current_task_btf(), fd);
	if (!file)
		return;
	struct dentry *dentry = GET(file, f_path.dentry);
	struct slot *slot = &slots[fd & (SLOTS - 1)];
	if (slot->file == file && slot->dentry == dentry && slot->fd == fd) {
		*subject = slot->subject;
		return;
	}
	bool lasts = subject_of_file(subject, place, file, fd);
	slot->file = lasts ? file : NULL;
	slot->dentry = dentry;
	slot->fd = fd;
	slot->subject = *subject;
}

/* The folder in which a process stands. */
INLINE void folder_subject(struct subject *subject, struct place *place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fs_struct *fs = task->fs;
	if (!fs)
		return;
	struct dentry *dentry = GET(fs, pwd.dentry);
	struct inode *inode = GET(dentry, d_inode);
	file_subject(subject, dentry, inode, S_IFDIR);
	place->dentry = dentry;
	place->mount = GET(fs, pwd.mnt);
}

/* A path as it is given; NULL where it could not be read: it may not be in memory yet. */
INLINE struct subject_name *read_path(const char *from)
{
	struct subject_name *name = empty_name(1);
	if (!name)
		return NULL;
	long read = bpf_probe_read_user_str(name->text, NAME_BYTES, from);
	if (read <= 0)
		return NULL;
	u32 bytes = (u32)(read - 1) & (NAME_BYTES - 1);
	name->form = NAME_IS_TEXT;
	name->bytes = bytes;
	name->is_cut = bytes == NAME_BYTES - 1;
	return name;
}

/* The key of such a path, behind where it begins. */
INLINE void path_subject(struct subject *subject, struct subject_name *name)
{
	u32 bytes = name->bytes;
	name->base = *subject;
	subject->kind = SUBJECT_PATH;
	subject->a = hash_of(name);
	subject->b = name->base.kind ? name->base.a * 31 + name->base.b : 0;
	subject->c = bytes;
	if (!bpf_map_lookup_elem(&subject_names, subject))
		bpf_map_update_elem(&subject_names, subject, name, BPF_NOEXIST);
}

/* The address that a socket is to be connected to, or something is sent to. */
INLINE bool address_subject(struct subject *subject, u32 fd, const void *from, u32 length)
{
	struct {
		u16 family, port;
		u32 v4;
	} address = {};
	struct file *file = file_of(bpf_get_current_task_btf(), fd);
	if (!file || !from || bpf_probe_read_user(&address, sizeof(address), from))
		return false;
	struct socket *socket = GET(file, private_data);
	u32 type = (u16)GET(socket, type) & 0xff;
	if (address.family == AF_INET) {
		subject->kind = SUBJECT_INET;
		subject->a = address.v4;
		subject->c = __builtin_bswap16(address.port) | type << 16;
		return true;
	}
	if (address.family == AF_INET6) {
		bpf_probe_read_user(subject, 16, from + 8);
		subject->kind = SUBJECT_INET6;
		subject->c = __builtin_bswap16(address.port) | type << 16;
		return true;
	}
	if (address.family != AF_UNIX || length <= 2)
		return false;
	struct subject_name *name = empty_name(1);
	if (!name)
		return false;
	u32 bytes = (length - 2) & 127;
	bpf_probe_read_user(name->text, bytes, from + 2);
	name->form = NAME_IS_TEXT;
	name->bytes = bytes;
	subject->kind = SUBJECT_UNIX;
	subject->a = hash_of(name);
	subject->c = 1;
	if (!bpf_map_lookup_elem(&subject_names, subject))
		bpf_map_update_elem(&subject_names, subject, name, BPF_NOEXIST);
	return true;
}
