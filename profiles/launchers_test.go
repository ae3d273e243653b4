package profiles

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestLaunchers(t *testing.T) {
	defaults := Launcher{Command: []string{"ssh", "-T", "gpu1"}, Program: "jp", Workspace: "same", Workers: 1, Children: 50, Starting: 8, Attempts: 3,
		Queue: 10 * time.Minute, Lease: 30 * time.Second}
	all := Launcher{Command: []string{"srun", "--job-name={run}", "-n", "-n"}, Program: "/opt/jp-1.0/bin/jp", Stop: []string{"scancel", "--name={run}"},
		Env: []string{"SLURM_*", "KUBECONFIG"}, Workspace: "none", Workers: 2, Children: 3, Starting: 4, Attempts: 5, Queue: 90 * time.Second, Lease: 5 * time.Second}
	for _, tt := range []struct {
		table string
		want  any // Launcher, or the message
	}{
		{`command = ["ssh", "-T", "gpu1"]`, defaults},
		{`command = ["srun", "--job-name={run}", "-n", "-n"]
program = "/opt/jp-1.0/bin/jp"
stop = ["scancel", "--name={run}"]
env = ["SLURM_*", "KUBECONFIG"]
workspace = "none"
keys = "home"
workers = 2
children = 3
starting = 4
attempts = 5
queue = "90s"
lease = "5s"`, all},
		{`lease = "5s"`, "1: launchers.gpu: command is missing (write command = [\"ssh\", \"-T\", \"HOST\"])"},
		{`command = []`, "1: launchers.gpu: command is missing (write command = [\"ssh\", \"-T\", \"HOST\"])"},
		{`command = "ssh -T gpu1"`, "2: launchers.gpu.command: must be a list of text, not text"},
		{`command = [""]`, "2: launchers.gpu.command: must begin with a program, whose name is written out without {run}"},
		{`command = ["./ssh"]`, "2: launchers.gpu.command: must begin with the name of a program or its absolute path: a relative one leads into each workspace"},
		{`command = ["x-{run}"]`, "2: launchers.gpu.command: must begin with a program, whose name is written out without {run}"},
		{"command = [\n'ssh',\n'a\tb']", "4: launchers.gpu.command: item 2 must not contain control characters"},
		{`command = ["ssh", "{node}"]`, "2: launchers.gpu.command: item 2 has a placeholder that does not exist; the only one is {run}"},
		{`command = ["kubectl", "--overrides={\"a\":{}}", "{{.ID}}"]`, Launcher{Command: []string{"kubectl", `--overrides={"a":{}}`, "{{.ID}}"}, Program: "jp", Workspace: "same", Workers: 1,
			Children: 50, Starting: 8, Attempts: 3, Queue: 10 * time.Minute, Lease: 30 * time.Second}},
		{"command = ['ssh']\nstop = ['{run}']", "3: launchers.gpu.stop: must begin with a program, whose name is written out without {run}"},
		{"command = ['ssh']\nprogram = 'jp;x'", "3: launchers.gpu.program: must be the name or path of jp on the node, of letters, digits and /._+- (a shell there may read it)"},
		{"command = ['ssh']\nprogram = '-x'", "3: launchers.gpu.program: must be the name or path of jp on the node, of letters, digits and /._+- (a shell there may read it)"},
		{"command = ['ssh']\nprogram = '{run}'", "3: launchers.gpu.program: must be the name or path of jp on the node, of letters, digits and /._+- (a shell there may read it)"},
		{"command = ['ssh']\nenv = ['OPENAI_API_KEY']", "3: launchers.gpu.env: item 1 is the key of a model provider, and no tool gets one"},
		{"command = ['ssh']\nenv = ['A', '*']", "3: launchers.gpu.env: item 2 must name variables: KUBECONFIG, or SLURM_* for all that begin so"},
		{"command = ['ssh']\nenv = ['JP_*']", "3: launchers.gpu.env: item 1 is jp's own"},
		{"command = ['ssh']\nenv = ['A=1']", "3: launchers.gpu.env: item 1 is no name of a variable"},
		{"command = ['ssh']\nworkspace = 'other'", `3: launchers.gpu.workspace: must be "same" or "none"`},
		{"command = ['ssh']\nkeys = 'node'", `3: launchers.gpu.keys: "node" is not built: this machine makes all calls of models (write "home", or leave it out)`},
		{"command = ['ssh']\nkeys = 'away'", `3: launchers.gpu.keys: must be "home"`},
		{"command = ['ssh']\nworkers = 0", "3: launchers.gpu.workers: must be between 1 and 1000"},
		{"command = ['ssh']\nchildren = 1025", "3: launchers.gpu.children: must be between 1 and 1024"},
		{"command = ['ssh']\nstarting = 101", "3: launchers.gpu.starting: must be between 1 and 100"},
		{"command = ['ssh']\nattempts = 0", "3: launchers.gpu.attempts: must be between 1 and 100"},
		{"command = ['ssh']\nqueue = '500ms'", "3: launchers.gpu.queue: must be between 1s and 168h"},
		{"command = ['ssh']\nlease = '61m'", "3: launchers.gpu.lease: must be between 1s and 1h"},
		{"command = ['ssh']\nleese = '1m'", "3: launchers.gpu.leese: unknown key (did you mean launchers.gpu.lease?)"},
	} {
		w := newWorld(t, map[string]string{"USER/config.toml": "[launchers.gpu]\n" + tt.table + "\n"})
		r, err := Resolve(w.src, nil, nil)
		got := any(nil)
		if err != nil {
			got = strings.TrimPrefix(w.failure(err), "USER/config.toml:")
		} else {
			got = *r.Config.Launchers["gpu"]
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tt.table, got, tt.want)
		}
	}
}

// A launcher is of the machine: from three places, and never from a workspace or profile. A profile
// only names one.
func TestLauncherIsOfMachine(t *testing.T) {
	w := newWorld(t, map[string]string{
		"USER/config.toml":         "[launchers.gpu]\ncommand = ['ssh', 'gpu1']\n[launchers.cpu]\ncommand = ['ssh', 'cpu1']\n",
		"WS/.jp/config.toml":       "launcher = 'gpu'\n",
		"WS/.jp/config/bad.toml":   "[launchers.mine]\ncommand = ['sh']\n",
		"WS/.jp/config/far.toml":   "launcher = 'cpu'\n[loader]\nreset = 'none'\n",
		"WS/.jp/config/table.toml": "[launcher.gpu]\ncommand = ['sh']\n",
	})
	for _, tt := range []struct{ cfg, want string }{
		{"", "gpu"}, {"far", "cpu"}, {"NONE", ""},
		{"bad", "WS/.jp/config/bad.toml:2: launchers.mine.command: is a machine setting, which a profile cannot set (it belongs in the user's config.toml, the environment or a flag)"},
		{"table", "WS/.jp/config/table.toml:1: launcher: must be text, not a table"},
	} {
		var ds []Directive
		if tt.cfg != "" {
			ds = append(ds, Directive{Flag: "--cfg", Text: tt.cfg})
		}
		r, err := Resolve(w.src, ds, nil)
		got := ""
		if err != nil {
			got = w.failure(err)
		} else {
			got = r.Config.Launcher
			if len(r.Config.Launchers) != 2 {
				t.Errorf("%s: launchers %v", tt.cfg, r.Config.Launchers)
			}
		}
		if got != tt.want {
			t.Errorf("--cfg %s = %s, want %s", tt.cfg, got, tt.want)
		}
	}
	w.src.Environ = append(w.src.Environ, "JP_CFG_LAUNCHERS__GPU__LEASE=2m")
	r, err := Resolve(w.src, []Directive{{Flag: "--cfg", Text: `launchers.gpu.command:=["ssh","gpu2"]`}, {Flag: "--cfg", Text: "NONE"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Config.Launchers["gpu"]; fmt.Sprint(l.Command, l.Lease) != "[ssh gpu2] 2m0s" {
		t.Errorf("of three places: %+v", l)
	}
	if stored := string(r.Stored()); stored != "{}" {
		t.Errorf("Stored = %s", stored)
	}
	for name, want := range map[string]string{
		"gpu": "<nil>", "gpx": `launcher: there is no launcher "gpx": your config has cpu, gpu (did you mean gpu?)`,
		"hamster": `launcher: there is no launcher "hamster": your config has cpu, gpu (write a table [launchers.hamster] with command = ["ssh", "-T", "HOST"] in your own config.toml)`,
	} {
		if _, err := r.Config.FindLauncher(name); fmt.Sprint(err) != want && w.failure(err) != want {
			t.Errorf("FindLauncher(%s) = %v", name, err)
		}
	}
	r, err = Resolve(w.src, []Directive{{Flag: "--cfg", Text: "far"}}, []Directive{{Flag: "--x", Text: "launcher=gpx"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.RequireLauncher(); w.failure(err) != `--x: launcher: there is no launcher "gpx": your config has cpu, gpu (did you mean gpu?)` {
		t.Errorf("RequireLauncher = %v", err)
	}
	if _, err := (Config{}).FindLauncher("gpu"); !strings.Contains(err.Error(), `there is no launcher "gpu": your config has none`) {
		t.Error(err)
	}
}
