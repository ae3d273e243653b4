package config

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/profiles/alias"
	"jp/profiles/effort"
	"jp/profiles/foreign"
	"jp/tools"
	"jp/tools/files"
	"jp/tools/unseen"
)

type importOptions struct {
	check bool
	force bool
	from  string
	tools command.Maybe[string]
	model command.Maybe[string]
	as    command.Maybe[string]
}

func newProfileImportCommand(g *Group) *cli.Command {
	var o importOptions
	return g.Tree.Command(command.Spec{
		Name: "import", Summary: "make profiles from agent files of other programs", Args: "FILE...", Min: 1, Max: -1,
		About: "Reads .claude/agents/*.md, .codex/agents/*.toml, .gemini/agents/*.md and " +
			".opencode/agent/*.md. For each file it writes a profile .jp/config/agent/NAME.toml. " +
			"The folder of a file says which program it is for; --from says it for other folders.\n\n" +
			"Prompt, model, temperature and limits are kept if a profile can hold them. sonnet, " +
			"opus, haiku and other aliases become the model that they stand for. If a file names no model, " +
			"or one that jp does not know, the profile gets the model of the config. A tool " +
			"becomes a tool of jp only if that tool can do no more. What is left out is listed, " +
			"and named in the profile. In other programs a file that lists no tools means all " +
			"tools. Here you say which: on a terminal jp asks, otherwise you need --tools. Tools " +
			"that write ask before each call until the profile says otherwise.\n\n" +
			"The name of a built-in profile, or of one in another folder of config_load_paths, is " +
			"taken only with --force. Nothing is overwritten, and if there is a mistake nothing is written. The workspace " +
			"has to be trusted and stays trusted. Read the profiles before you use them: jp " +
			"cannot judge a prompt.",
		Flags: []*command.Option{
			command.Bool(&o.check, "check", "show the profiles, write nothing"),
			command.Bool(&o.force, "force", "take the names of built-in profiles and of profiles in other folders"),
			command.Choice(&o.from, "from", "PROGRAM", foreign.Formats(), "program that the files are for: "+strings.Join(foreign.Formats(), ", ")),
			command.String(&o.tools, "tools", "NAMES", "tools of agents whose files list none; commas or spaces between names; none for no tools"),
			command.Model(&o.model, "ID", "model of agents that name none, that name a family such as sonnet, or that name a model jp does not know"),
			command.String(&o.as, "prefix", "WORD", "call the profiles agent/WORD-NAME"),
		},
		Exits: []exit.Status{exit.NotFound, exit.Busy, exit.Refused},
		Examples: []string{
			"jp profile import .claude/agents/*.md --check",
			"jp profile import .codex/agents/explorer.toml --tools fs_read_file,fs_grep_files",
			"jp profile import .claude/agents/planner.md --prefix claude",
		},
		Run: func(ctx context.Context, args []string) error { return runProfileImport(ctx, g, o, args) },
	})
}

// imported is the JSON form of one imported file.
type imported struct {
	File    string            `json:"file"`
	Format  string            `json:"format"`
	Profile string            `json:"profile"` // value for --cfg
	Path    string            `json:"path"`    // path of the profile, below the workspace
	Model   string            `json:"model"`   // "" = none
	Tools   []string          `json:"tools"`
	Mapped  map[string]string `json:"mapped"` // names of tools in the file, with their names in jp
	LeftOut []string          `json:"left_out"`
	Written bool              `json:"written"`
	TOML    string            `json:"toml"`

	data    []byte
	instead string // profile that the name found before; "" = none

	left []omission // parts of the file that the profile does not have
	odd  string     // note if the file is not in the usual form; "" = it is
}

func runProfileImport(ctx context.Context, g *Group, o importOptions, args []string) error {
	root, err := g.WS.Root()
	if err != nil {
		return err
	}
	if o.as.Set && (foreign.Agent{Name: o.as.Value}).ProfileName() != o.as.Value {
		return exit.Usagef("--prefix: %q: only lowercase letters, digits, - and _", o.as.Value)
	}
	passed, err := g.WS.Gate.Pass(ctx) // the question comes before the lock, so that others do not wait
	if err != nil {
		return err
	}
	src := g.WS.SourcesOf(passed)
	config, err := profiles.Resolve(src, nil, nil)
	if err != nil {
		return err
	}
	if o.model.Set {
		id, err := config.Config.ResolveModel(o.model.Value)
		if e := (*profiles.Error)(nil); errors.As(err, &e) {
			return exit.Usagef("--model: %s", e.Msg).WithHint("%s", cmp.Or(e.Hint, "such as "+model.Examples))
		}
		o.model.Value = id
	}
	list := make([]imported, len(args))
	taken := map[string]string{}
	there := 0
	for i, arg := range args {
		if list[i], err = g.readImport(ctx, config.Config, o, root, arg); err != nil {
			return err
		}
		path := list[i].Path
		if other, ok := taken[path]; ok {
			return exit.Usagef("profile import: %s and %s would both be %s", other, arg, path)
		}
		taken[path] = arg
		name := list[i].Profile
		prefix := "--prefix WORD calls it agent/WORD-" + filepath.Base(name)
		var f *exit.Error
		if _, err := os.Lstat(filepath.Join(root, path)); !errors.Is(err, fs.ErrNotExist) {
			f = exit.Usagef("profile import %s: %s exists; it is not overwritten", arg, path).WithHint("%s; or move that file away", prefix)
		} else if list[i].instead, err = g.named(src, name); err != nil {
			return err
		} else if list[i].instead != "" && !o.force {
			f = exit.Usagef("profile import %s: %s is %s, whose place it would take", arg, name, list[i].instead).WithHint("%s; --force takes the place", prefix)
		}
		switch {
		case f == nil:
		case !o.check:
			return f
		default:
			there++
			g.Con.Note("%s (%s)", f.Msg, f.Hint)
		}
	}
	if err := g.writeImports(ctx, src, list, o.check); err != nil {
		return err
	}
	g.noteImports(list)
	for _, im := range list {
		if im.Written && im.instead != "" {
			g.Con.Note("%s is no longer %s", im.Profile, im.instead)
		}
	}
	if err := g.writeImported(list, o.check); err != nil {
		return err
	}
	if there > 0 {
		return exit.Quiet(exit.Usage)
	}
	return nil
}

// named returns what the name of a profile finds now, "" for nothing.
func (g *Group) named(src profiles.Sources, name string) (string, error) {
	p, err := profiles.Find(src, name)
	switch {
	case errors.Is(err, profiles.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case p.Source == "builtin":
		return "the built-in profile", nil
	}
	return unseen.Word(g.WS.Relative(p.Arg)), nil
}

// writeImported prints what was made, or would be made with --check.
func (g *Group) writeImported(list []imported, check bool) error {
	if g.Con.JSON() {
		return g.Con.Document(list)
	}
	if g.Con.Pretty() && !check {
		defer g.Con.Note("delegation.profiles says which an agent may start; try one: jp query --new --cfg %s \"...\"", list[0].Profile)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, im := range list {
			if check {
				fmt.Fprintf(w, "# %s\n%s\n", im.Path, g.Con.IO.Text(im.TOML))
				continue
			}
			fmt.Fprintf(w, "created %s\n", im.Path)
			tools := cmp.Or(strings.Join(im.Tools, " "), "none")
			fmt.Fprintf(w, "  model %s, tools %s\n", cmp.Or(im.Model, "none"), tools)
		}
		return nil
	})
}

// readImport makes the profile of one file.
func (g *Group) readImport(ctx context.Context, cfg profiles.Config, o importOptions, root, arg string) (imported, error) {
	file := g.Con.Abs(arg)
	format := o.from
	if format == "" {
		format = foreign.FormatOf(file)
	}
	missing := exit.NotFoundf("profile import %s: no such file", arg)
	if format == "" {
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			return imported{}, missing
		}
		return imported{}, exit.Usagef("profile import %s: the program that it is for is not known", arg).
			WithHint("--from %s", strings.Join(foreign.Formats(), "|"))
	}
	f, err := foreign.Read(format, file, root)
	if errors.Is(err, fs.ErrNotExist) {
		return imported{}, missing
	}
	if err != nil {
		return imported{}, err
	}
	if f.ProfileName() == "" {
		return imported{}, exit.Usagef("profile import %s: its name %q has no letter or digit that the name of a profile can have", arg, f.Name)
	}
	if o.as.Set {
		f.Name = o.as.Value + "-" + f.Name
	}
	name := f.ProfileName()
	im := imported{File: arg, Format: format, Profile: "agent/" + name, Path: ".jp/config/agent/" + name + ".toml", Mapped: map[string]string{}, LeftOut: []string{}}
	omit := func(kind, thing, reason string) {
		l := omission{kind: kind, thing: term.Cut(term.Line(thing), maxLeftOut, true), reason: reason}
		im.left = append(im.left, l)
		im.LeftOut = append(im.LeftOut, l.String())
	}
	if f.Odd != "" {
		im.odd = f.Odd
	}
	names, unknown := f.MapTools()
	for _, t := range f.Tools {
		if known, _ := (foreign.Agent{Format: format, Tools: []string{t}}).MapTools(); len(known) > 0 {
			im.Mapped[t] = known[0]
		}
	}
	for _, t := range unknown {
		omit("tool", t, "jp has no tool that does the same")
	}
	if len(f.Skills) > 0 && f.Listed {
		omit("skill", strings.Join(f.Skills, " "), "not part of the prompt; the tool skill reads it")
	}
	for _, note := range f.Notes {
		omit("", "", note)
	}
	if !f.Listed {
		if names, err = g.chooseTools(ctx, o, arg); err != nil {
			return imported{}, err
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			rule := f.Forbids(name)
			if rule != "" {
				omit("", "", fmt.Sprintf("the tool %s, because the file forbids %s", name, rule))
			}
			return rule != ""
		})
	}
	slices.Sort(names)
	im.Tools = append([]string{}, slices.Compact(names)...)
	held, err := heldTools(im.Tools)
	if err != nil {
		return imported{}, err
	}
	for i := range held {
		held[i].Unattended = held[i].Unattended && !f.Asks(held[i].Name)
	}
	im.Model = g.foreignModel(cfg, f.Model, o.model.Set)
	if im.Model == "" {
		im.Model = o.model.Value
		if !o.model.Set {
			im.Model, _ = cfg.RequireModel() // without a model in the config the profile has none
		}
		switch from := wording.Either(o.model.Set, "from --model", "from the config"); {
		case im.Model == "" && f.Model == "":
			omit("model", "", "the file names none, and the config has none; set assistant.model, or give --model")
		case im.Model == "":
			omit("model", f.Model, "jp does not know it; set assistant.model, or give --model")
		case f.Model != "":
			omit("model", f.Model, fmt.Sprintf("jp does not know it; the profile has %s, %s", im.Model, from))
		case !o.model.Set:
			omit("model", "", fmt.Sprintf("the file names none; the profile has %s, %s", im.Model, from))
		}
	}
	if f.Reasoning != "" && !slices.Contains(effort.Levels(), f.Reasoning) {
		omit("reasoning", f.Reasoning, "jp does not know it")
	}
	for _, key := range f.Left {
		omit("key", key, "a profile has no such setting")
	}
	im.data = f.Profile(foreign.Imported{Source: filepath.ToSlash(g.WS.Relative(file)), Model: im.Model, Tools: held, Notes: im.LeftOut})
	im.TOML = string(im.data)
	return im, nil
}

// chooseTools returns the tools of an agent whose file lists none: those of --tools, or those that
// the user answers.
func (g *Group) chooseTools(ctx context.Context, o importOptions, arg string) ([]string, error) {
	if o.tools.Set {
		return enabled.NamesIn("--tools", []string{o.tools.Value})
	}
	missing := exit.Usagef("profile import %s: lists no tools, which means all tools in the other program", arg).
		WithHint("--tools fs_read_file,fs_list_files,fs_grep_files lets it read; --tools '' gives it none")
	tty, err := g.Con.Terminal()
	if console.Nobody(err) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = tty.Close() }()
	answer, err := console.AskLine(ctx, tty, fmt.Sprintf("%s lists no tools, which means all tools in the other program.\nIts tools here (such as fs_read_file fs_list_files fs_grep_files; nothing = none): ", term.Line(arg)))
	if err != nil {
		return nil, err
	}
	return enabled.NamesIn("tools", []string{answer})
}

// heldTools finds built-in tools by name. Those that only read run without a question.
func heldTools(names []string) ([]foreign.Held, error) {
	held := make([]foreign.Held, len(names))
	for i, name := range names {
		def, ok := tools.Embedded(name)
		if !ok || def.Source != tools.SourceBuiltin {
			var known []string
			for _, name := range tools.EmbeddedNames() {
				if def, ok := tools.Embedded(name); ok && def.Source == tools.SourceBuiltin {
					known = append(known, name)
				}
			}
			return nil, exit.Usagef("--tools: %q is not a built-in tool", name).WithHint("%s", command.DidYouMean(name, known, "one of "+strings.Join(known, ", ")))
		}
		held[i] = foreign.Held{Name: name, Source: def.Source, Unattended: !slices.Contains([]string{"fs_create_file", "fs_modify_file"}, name)}
	}
	return held, nil
}

// foreignModel returns the id in jp of a file's model, "" if it is unknown, or if it is a family
// such as sonnet and a flag names another model for these.
func (g *Group) foreignModel(cfg profiles.Config, name string, other bool) string {
	name, _, _ = strings.Cut(name, "[") // claude-sonnet-5[1m] is the same model with a larger window
	if id, err := cfg.ResolveModel(name); err == nil {
		_, err := model.Lookup(id, g.Env.Providers(cfg)) // its provider may not be configured
		return wording.Either(err == nil && !(other && id == alias.Builtin()[name]), id, "")
	}
	switch {
	case strings.HasPrefix(name, "claude-"):
		return "anthropic/" + name
	case strings.HasPrefix(name, "gpt-"):
		return "openai/" + name
	case strings.HasPrefix(name, "gemini-"):
		return "gemini/" + name
	}
	return ""
}

// writeImports writes all profiles or none, in one step with the record of trust. Each is first
// resolved as config.
func (g *Group) writeImports(ctx context.Context, src profiles.Sources, list []imported, check bool) error {
	unlock, err := g.lockConfig(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	src.Instead = map[string][]byte{}
	written := map[string][]byte{}
	for _, im := range list {
		file := filepath.Join(src.Workspace, filepath.FromSlash(im.Path))
		src.Instead[file] = im.data
		if _, err := profiles.Resolve(src, workspace.UnderNone(file), nil); err != nil {
			return err
		}
		written[im.Path] = im.data
	}
	if check {
		return nil
	}
	if _, err := g.trustedNow(ctx); err != nil {
		return err
	}
	put := func() error { return putImports(src.Workspace, list) }
	if g.WS.Gate.ByEnv() {
		err = put()
	} else {
		err = g.WS.Gate.Write(ctx, src.Workspace, written, put)
	}
	if err != nil {
		return fmt.Errorf("profile import: %w", err)
	}
	for i := range list {
		list[i].Written = true
	}
	return nil
}

// putImports makes the files. If one cannot be made, it removes those before it.
func putImports(workspace string, list []imported) (err error) {
	root, err := os.OpenRoot(filepath.Join(workspace, ".jp"))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				_ = root.Remove(name)
			}
		}
	}()
	for _, im := range list {
		name := filepath.FromSlash(strings.TrimPrefix(im.Path, ".jp/"))
		ok, err := files.CreateIn(root, name, im.data)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s: exists; it is not overwritten", im.Path)
		}
		made = append(made, name)
	}
	return nil
}
