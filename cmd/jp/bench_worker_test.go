package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// These benchmarks time sub-agents of workers. Their launcher is env, or the command of
// $JP_BENCH_LAUNCHER, which must lead to this machine: ssh -T localhost.

func benchLauncher() []string {
	return strings.Fields(cmp.Or(os.Getenv("JP_BENCH_LAUNCHER"), "env"))
}

// launcher writes a launcher to the user's config, with a jp on the node that is a file of its own.
// Before are words in front of its command.
func (s *shop) launcher(name string, before []string, settings string) (node string) {
	node = s.jp + "-node"
	program, err := os.ReadFile(s.jp)
	if err == nil {
		err = os.WriteFile(node, program, 0o700)
	}
	if err != nil {
		s.b.Fatal(err)
	}
	command, err := json.Marshal(slices.Concat(before, benchLauncher())) // an array of TOML too
	if err != nil {
		s.b.Fatal(err)
	}
	s.write(filepath.Join(filepath.Dir(s.dir), "home/.config/jp/config.toml"), fmt.Sprintf(
		"[launchers.%s]\ncommand = %s\nprogram = %q\nenv = [\"SLURM_*\", \"SSH_AUTH_SOCK\"]\n%s\n", name, command, node, settings))
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "SLURM_") || strings.HasPrefix(v, "SSH_AUTH_SOCK=") {
			s.env = append(s.env, v)
		}
	}
	return node
}

// BenchmarkWorkerFirstWord is the time from a launch to the first line of the worker, as jp doctor
// finds it, beside that to the first line of echo by the same launcher. Doctor then measures a
// process of a sub-agent there, and a line and its answer.
func BenchmarkWorkerFirstWord(b *testing.B) {
	s := newShop(b, "0s")
	s.launcher("node", nil, "")
	bare := append(benchLauncher(), "echo")
	var echo, first, process, trip []float64
	for b.Loop() {
		cmd := exec.Command(bare[0], bare[1:]...)
		cmd.Env = s.env
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		_, err = out.Read(make([]byte, 1))
		echo = append(echo, ms(time.Since(began)))
		if err := errors.Join(err, cmd.Wait()); err != nil {
			b.Fatal(err)
		}

		cmd = exec.Command(s.jp, "doctor", "--launcher", "node", "-F", "json")
		cmd.Dir, cmd.Env = s.dir, s.env
		text, err := cmd.Output()
		var found struct {
			Steps []struct {
				Step string  `json:"step"`
				MS   float64 `json:"ms"`
			} `json:"steps"`
		}
		if err := errors.Join(err, json.Unmarshal(text, &found)); err != nil {
			b.Fatalf("%v\n%s", err, text)
		}
		for _, step := range found.Steps {
			switch step.Step {
			case "start":
				first = append(first, step.MS)
			case "process":
				process = append(process, step.MS)
			case "round trip":
				trip = append(trip, step.MS)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(first), "ms")
	b.ReportMetric(median(echo), "ms-echo")
	b.ReportMetric(median(first)-median(echo), "ms-more")
	b.ReportMetric(20, "ms-more-goal")
	b.ReportMetric(median(process), "ms-process")
	b.ReportMetric(median(trip), "ms-trip")
}

// BenchmarkWorker200Children is jp batch with 200 lines, 64 at once, as local sub-agents and
// through one worker.
func BenchmarkWorker200Children(b *testing.B) {
	s := newShop(b, "0s")
	s.launcher("node", nil, "children = 64")
	local, far := s.batches("", "node", 200, 0)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(local, "local/s")
	b.ReportMetric(far, "worker/s")
	b.ReportMetric(far/local, "x-local")
	b.ReportMetric(60, "worker/s-goal")
}

// BenchmarkWorkerForEachChild is jp batch with 64 lines, all at once, as local sub-agents and with
// a launch for each. A worker that has become free would take another line, so the model takes
// longer than all launches. Its time is left out, and the launches are counted.
func BenchmarkWorkerForEachChild(b *testing.B) {
	const delay = 8 * time.Second
	s := newShop(b, delay.String())
	launches := filepath.Join(filepath.Dir(s.dir), "launches")
	s.launcher("node", []string{"sh", "-c", `echo >>"$0"; exec "$@"`, launches}, "children = 1\nworkers = 64")
	local, far := s.batches("", "node", 64, delay)
	counted, err := os.ReadFile(launches)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(local, "local/s")
	b.ReportMetric(far, "launched/s")
	b.ReportMetric(far/local, "x-local")
	b.ReportMetric(20, "launched/s-goal-srun")
	b.ReportMetric(35, "launched/s-goal-ssh")
	b.ReportMetric(float64(len(counted))/float64(min(b.N, enough)), "launches")
}

// enough runs of a benchmark that takes long and says the same each time.
const enough = 3

// batches runs a jp batch by one launcher and by another in turn, and returns how many lines each
// has done in a second, without delay.
func (s *shop) batches(one, other string, lines int, delay time.Duration) (ofOne, ofOther float64) {
	s.stdin = strings.Repeat("\"part\"\n", lines)
	took := map[string][]time.Duration{}
	for i := 0; s.b.Loop(); i++ {
		if i >= enough {
			continue
		}
		for _, launcher := range []string{one, other} {
			wall, _ := s.run(s.jp, "batch", "-q", "-c", "agent/r", "--parallel", "64", "--launcher", launcher)
			took[launcher] = append(took[launcher], wall-delay)
		}
	}
	rate := func(launcher string) float64 { return float64(lines) / median(took[launcher]).Seconds() }
	return rate(one), rate(other)
}

// BenchmarkWorkerBytes counts what crosses both wires for each round of a sub-agent: a reply that
// calls a tool, and its result. Frames are those between the sub-agent and its owner, which are the
// same for a local one; lines are those between the owner and the worker, which carry the frames.
// Up is towards the owner. The later ten rounds are compared with the first ten.
func BenchmarkWorkerBytes(b *testing.B) {
	var rules strings.Builder
	for _, rounds := range []int{10, 20} {
		for i := range rounds {
			fmt.Fprintf(&rules, "[[rule]]\nquery = \"look %d\"\nround = %d\ntool_calls = [{ name = \"fs_read_file\", arguments = { path = \"a.txt\" } }]\n", rounds, i+1)
		}
	}
	s := newShop(b, "0s", rules.String())
	const tool = "[conversation.tools.fs_read_file]\nsource = \"builtin\"\nrun = \"unattended\"\n"
	for _, file := range []string{".jp/config.toml", ".jp/config/agent/r.toml"} {
		s.write(filepath.Join(s.dir, file), tool)
	}
	s.write(filepath.Join(s.dir, "a.txt"), "one line\n")
	s.run(s.jp, "trust", "--yes")
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	count, file := filepath.Join(filepath.Dir(s.dir), "jp-count"), filepath.Join(filepath.Dir(s.dir), "counted")
	if err := os.Symlink(self, count); err != nil {
		b.Fatal(err)
	}
	s.launcher("node", []string{count, file}, "")
	measure := func(rounds int) (c counts) {
		s.stdin = fmt.Sprintf("\"look %d\"\n", rounds)
		asked := len(s.server.Requests())
		s.run(s.jp, "batch", "-q", "-c", "agent/r", "--launcher", "node")
		if n := len(s.server.Requests()) - asked; n != rounds+1 {
			b.Fatalf("%d requests in place of %d", n, rounds+1)
		}
		text, err := os.ReadFile(file)
		if err := errors.Join(err, json.Unmarshal(text, &c)); err != nil {
			b.Fatal(err)
		}
		return c
	}
	var none, ten, twenty counts
	for b.Loop() {
		none, ten, twenty = measure(0), measure(10), measure(20)
	}
	round := func(of func(counts) int) float64 { return float64(of(twenty)-of(none)) / 20 }
	lines := func(c counts) int { return c.Up.Lines + c.Down.Lines }
	frames := func(c counts) int { return c.Up.Frames + c.Down.Frames }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(round(func(c counts) int { return c.Up.Frames }), "frames-up-B/round")
	b.ReportMetric(round(func(c counts) int { return c.Down.Frames }), "frames-down-B/round")
	b.ReportMetric(round(func(c counts) int { return c.Up.Lines }), "lines-up-B/round")
	b.ReportMetric(round(func(c counts) int { return c.Down.Lines }), "lines-down-B/round")
	b.ReportMetric(round(lines)/round(frames), "x-frames")
	b.ReportMetric(float64(lines(twenty)-lines(ten))/float64(lines(ten)-lines(none)), "x-first-rounds")
	b.ReportMetric(float64(frames(none)), "frames-B/child")
	b.ReportMetric(float64(lines(none)), "lines-B/child")
}

// counts are bytes towards the owner and towards the node.
type counts struct{ Up, Down counted }

// counted are the bytes of lines of package worker, and of the frames in them.
type counted struct{ Lines, Frames int }

// copy copies lines, and counts them.
func (c *counted) copy(to io.WriteCloser, from io.Reader) error {
	defer to.Close()
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		c.Lines += len(line)
		if words := bytes.SplitN(line, []byte(" "), 4); len(words) == 4 {
			switch string(words[1]) {
			case "wire":
				c.Frames += len(words[3])
			case "wire+": // the frame goes on in the next line
				c.Frames += len(words[3]) - 1
			}
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// countMain is the program jp-count FILE COMMAND...: a launcher that runs another one and writes
// what went through it to FILE.
func countMain() {
	var c counts
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = cmd.StdoutPipe(); err == nil {
			if err = cmd.Start(); err == nil {
				down := make(chan error, 1)
				go func() { down <- c.Down.copy(in, os.Stdin) }()
				err = errors.Join(c.Up.copy(os.Stdout, out), <-down, cmd.Wait())
			}
		}
	}
	text, encoding := json.Marshal(c)
	if err = errors.Join(err, encoding, os.WriteFile(os.Args[1], text, 0o600)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
