package tools

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/tools/fs"
	"jp/tools/proc"
)

// What a program that is no tool may reach is said, and means, what it does for a tool.
func TestDecodeReach(t *testing.T) {
	for _, tt := range []struct {
		table string
		want  Definition
		err   string
	}{
		{table: ``, want: Definition{Network: NetworkNone, Sandbox: SandboxAuto}},
		{table: `network = "any"`, want: Definition{Network: NetworkAny, Sandbox: SandboxAuto}},
		{table: `sandbox = "off"`, want: Definition{Network: NetworkNone, Sandbox: SandboxOff}},
		{table: "access.fs = [{ path = \"a\", mode = \"rw\" }]\nsandbox = \"require\"",
			want: Definition{Access: Access{FS: []fs.Rule{{Path: "a", Mode: fs.ReadWrite}}}, Network: NetworkNone, Sandbox: SandboxRequire}},
		{table: `access.fs = []`, want: Definition{Access: Access{FS: []fs.Rule{}}, Network: NetworkNone, Sandbox: SandboxAuto}},
		{table: `access.jp = ["ls"]`, err: "tool s: access.jp: is for tools only"},
		{table: `command = "x"`, err: "tool s: command: is for tools only"},
		{table: `acces = 1`, err: "tool s: acces: unknown key"},
		{table: `access.fs = [{ path = ".jp" }]`, err: `tool s: access.fs[0].path: ".jp": no tool reaches into .jp`},
		{table: "network = \"none\"\nsandbox = \"off\"", err: "tool s: sandbox: is off: nothing would hold it to access and network"},
	} {
		got, err := DecodeReach("s", table(t, tt.table))
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v, want %s", tt.table, err, tt.err)
			}
			continue
		}
		tt.want.Name, tt.want.Source = "s", SourceLocal
		got.set = nil
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.table, got, err, tt.want)
		}
	}
}

func TestBox(t *testing.T) {
	dir := t.TempDir()
	def, err := DecodeReach("s", table(t, "network = \"any\"\nsandbox = \"require\""))
	if err != nil {
		t.Fatal(err)
	}
	box, can, err := CommandEnv{Dir: dir, Program: "/jp", Enforceable: wholeKernel}.Box(def)
	if err != nil || !can.Files() {
		t.Fatalf("Box = %v, %v", can, err)
	}
	system := proc.System()
	if got := box.Read[len(system.Read):]; len(got) != 1 || !strings.HasSuffix(got[0], dir) || !box.Network || !box.TmpDir || !box.Require || !slices.Equal(box.Programs, []string{"/jp"}) {
		t.Errorf("Box = %+v", box)
	}
	const want = `sandbox = "require": this system cannot enforce ` + noSignals
	if _, _, err := (CommandEnv{Dir: dir, Enforceable: oldKernel}).Box(def); err == nil || err.Error() != want {
		t.Errorf("on an old kernel: %v, want %s", err, want)
	}
	if _, _, err := (CommandEnv{Dir: dir, Enforceable: wholeKernel, Kept: fs.Kept{Deny: []string{dir}}}).Box(def); err == nil {
		t.Error("what is closed is opened")
	}
}
