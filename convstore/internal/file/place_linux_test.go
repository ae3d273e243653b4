package file

import "testing"

func TestNetworkKinds(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "nfs", 0xff534d42: "cifs", 0x01021997: "9p", 0xef53: "", 0x01021994: "", 0x9123683e: ""} {
		if got := networkMagic(magic); got != want {
			t.Errorf("networkMagic(%#x) = %q, want %q", magic, got, want)
		}
	}
	if kind, err := networkKind(t.TempDir()); kind != "" || err != nil {
		t.Errorf("networkKind of a temporary folder = %q, %v", kind, err)
	}
	// A FUSE file system counts as remote unless its kind is known to be local.
	mounts := `22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:50 / /home/u/remote rw - fuse.sshfs host: rw
31 22 0:51 / /home/u/remote/in\040crypt rw - fuse.gocryptfs crypt rw
`
	for path, want := range map[string]string{
		"/home/u/remote":            "fuse.sshfs",
		"/home/u/remote/a/b":        "fuse.sshfs",
		"/home/u/remote/in crypt/a": "",
		"/home/u/remote2":           "ext4",
	} {
		if got := fuseKind(mounts, path); got != want {
			t.Errorf("fuseKind(%s) = %q, want %q", path, got, want)
		}
	}
}
