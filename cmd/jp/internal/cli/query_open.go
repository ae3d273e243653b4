package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/profiles"
)

// open finds or makes the conversation, takes its lock and resolves its config.
func (q *query) open(ctx context.Context, text string, inherited *os.File) error {
	q.began = time.Now()
	isNew := q.o.fresh || q.o.id.Value == "new"
	var target convstore.ID
	if !isNew {
		var err error
		if target, err = q.target(ctx); err != nil {
			return err
		}
		isNew = target == 0
	}
	switch {
	case isNew && text == "":
		return errNothing()
	case !isNew && !q.o.fork.Set && (q.o.hidden || q.o.tmp.Set || q.o.title.Set):
		return exit.Usagef("--hidden, --tmp, --title: only for a new conversation, and %s goes on", target).WithHint("--new begins a new one")
	}
	if q.o.rootID.Set && !isNew {
		// Before the target's config is read.
		root, err := q.app.ws.Target(ctx, q.o.rootID.Value)
		if err != nil {
			return err
		}
		if q.conv, err = q.store.GetUnder(ctx, root, target); err != nil {
			return err
		}
	}
	switch {
	case isNew && q.o.rootID.Set:
		return q.delegateByHand(ctx)
	case isNew:
		return q.create(ctx, text)
	case q.app.con.Globals.NoPersist:
		return q.borrow(ctx, target)
	case q.o.fork.Set:
		return q.branch(ctx, target)
	}

	var err error
	if q.conv.ID != target { // before the lock is taken: its status is that of its last turn
		if q.conv, err = q.store.Get(ctx, target); err != nil {
			return err
		}
	}
	q.delegated = inherited != nil
	switch {
	case q.delegated:
		q.log, err = q.store.Adopt(ctx, target, inherited)
	case q.conv.Link == convstore.DelegationLink && q.conv.Grant != nil:
		return q.goOn(ctx, text)
	default:
		q.log, err = q.store.Lock(ctx, target)
	}
	if err != nil {
		return err
	}
	q.app.ws.Gate.Delegated = q.delegated
	stored := q.log.Taken()
	directives := q.o.directives
	if q.delegated {
		if directives, err = childDirectives(directives, q.conv); err != nil {
			return err
		}
	}
	if err := q.resolve(ctx, stored.JSON, directives); err != nil {
		return err
	}
	return q.record(ctx, stored.JSON)
}

// record stores what directives and flags changed in the config of a conversation that goes on.
func (q *query) record(ctx context.Context, before []byte) error {
	after := q.resolved.Stored()
	if bytes.Equal(before, after) {
		return nil
	}
	model, config, err := q.accept(ctx)
	if err != nil {
		return err
	}
	delta, err := profiles.Delta(before, after)
	if err != nil {
		return err
	}
	return q.log.Append(ctx, convstore.Event{ID: convstore.NewEventID(), Time: time.Now(), Body: convstore.ConfigDelta{
		Delta: delta, Reset: q.resolved.ResetKind, Resolved: config, Model: model,
	}})
}

// accept finds out whether what was resolved can be run, and returns its model and what is stored of it. Nothing is made or
// stored of a config before that.
func (q *query) accept(ctx context.Context) (model string, config convstore.Config, err error) {
	if model, err = q.resolved.Config.RequireModel(); err != nil {
		return "", config, err
	}
	_, info, err := q.app.env.Model(ctx, q.resolved.Config, model, run.Waits{})
	if err == nil {
		err = q.sees(info)
	}
	if err != nil {
		return "", config, err
	}
	defs, err := q.app.env.Definitions(ctx, q.resolved)
	return model, convstore.Config{JSON: q.resolved.Stored(), Tools: run.Names(defs)}, err
}

// branch forks the target and goes on with the fork.
func (q *query) branch(ctx context.Context, src convstore.ID) (err error) {
	if q.conv, err = q.store.Get(ctx, src); err != nil {
		return err
	}
	stored, err := q.store.Config(ctx, src)
	if err != nil {
		return err
	}
	if err := q.resolve(ctx, stored.JSON, q.o.directives); err != nil {
		return err
	}
	model, config, err := q.accept(ctx)
	if err != nil {
		return err
	}
	f := convstore.Fork{
		Hidden: q.o.hidden, Title: q.o.title.Value, ExpiresAt: q.expiry(), Config: &config, Model: model,
		Profile: q.conv.Profile, ProfileArg: q.conv.ProfileArg, ProfileHash: q.conv.ProfileHash,
	}
	if q.o.fork.Value >= 0 {
		f.Turns = convstore.LastTurns(q.o.fork.Value)
	}
	if r := q.resolved; r.Profile != "" {
		f.Profile, f.ProfileArg, f.ProfileHash = r.Profile, r.ProfileArg, r.ProfileHash
	}
	if q.conv, err = q.store.Fork(ctx, src, f); err != nil {
		return err
	}
	q.made = true
	q.log, err = q.store.Lock(ctx, q.conv.ID)
	return err
}

// childDirectives checks what a delegated run was told against what its caller stored. The store's config is what counts:
// of the command line only an override of the model is left to apply, and only where none was stored with it.
func childDirectives(ds []profiles.Directive, conv convstore.Conversation) ([]profiles.Directive, error) {
	if len(ds) == 0 || ds[0].Text != "NONE" {
		for _, d := range ds {
			if !strings.HasPrefix(d.Text, "assistant.model=") {
				return nil, exit.Refusedf("--cfg %s: a delegated run takes no config but its own", d.Text)
			}
		}
		return ds, nil
	}
	if len(ds) < 2 || ds[1].Text != conv.ProfileArg {
		return nil, exit.Refusedf("--cfg: %s was delegated under the profile %s", conv.ID, conv.ProfileArg)
	}
	return nil, nil
}

// target names the conversation to go on with, 0 for none yet.
func (q *query) target(ctx context.Context) (convstore.ID, error) {
	if q.o.id.Set {
		return q.app.ws.Target(ctx, q.o.id.Value)
	}
	if q.o.fork.Set {
		return q.app.ws.Target(ctx, "active")
	}
	session := q.app.ws.Session()
	if session == "" {
		return 0, nil
	}
	store, err := q.app.ws.Store(ctx)
	if err != nil {
		return 0, err
	}
	active, _, err := store.Active(ctx, session)
	if err != nil || active == 0 {
		return 0, err
	}
	if c, err := store.Get(ctx, active); err == nil && c.Archived() {
		return 0, exit.Usagef("conversation %s: is archived, and nothing says that it is to go on", active).
			WithHint("--new begins another; --id %s goes on with it, and takes it out of the archive", active)
	}
	return active, nil
}

// unarchive takes a conversation that goes on out of the archive, where nobody would find what is said in it. What another jp
// delegates stays where it is.
func (q *query) unarchive(ctx context.Context) error {
	if !q.conv.Archived() || q.delegated || q.app.con.Globals.NoPersist {
		return nil
	}
	err := q.store.Edit(ctx, q.conv.ID, func(c *convstore.Conversation) error {
		c.ArchivedAt = time.Time{}
		return nil
	})
	if err == nil {
		q.app.con.Note("conversation %s was archived, and is not any more", q.conv.ID)
	}
	return err
}

func (q *query) expiry() time.Time {
	if !q.o.tmp.Set {
		return time.Time{}
	}
	return time.Now().Add(q.o.tmp.Value)
}

// resolve reads the config; a conversation that was delegated keeps to its grant.
func (q *query) resolve(ctx context.Context, stored []byte, ds []profiles.Directive) error {
	// A delegated run is what its caller stored, and reads no config of the workspace.
	src := q.app.ws.UserSources()
	if !q.delegated {
		var err error
		if src, err = q.app.ws.Sources(ctx, ds); err != nil {
			return err
		}
	}
	src.Stored = stored
	src.HasGrant = q.conv.Grant != nil
	flags := q.o.flagDirectives()
	r, err := q.app.ws.Config(src, ds, flags)
	if err != nil {
		return err
	}
	if len(q.o.toggles) > 0 || q.o.heads.only != nil {
		more, err := q.toggle(r)
		if err != nil {
			return err
		}
		if r, err = q.app.ws.Config(src, ds, append(flags, more...)); err != nil {
			return err
		}
	}
	if q.conv.Grant != nil {
		if cut := r.Cut(q.conv.Grant.Tools); len(cut) > 0 {
			q.app.con.Warn("%s: not granted and left out: %s", q.conv.ID, strings.Join(cut, ", "))
		}
	}
	q.resolved = r
	return nil
}

// create makes a root. Its config is resolved and found good first, so that a mistake leaves nothing behind.
func (q *query) create(ctx context.Context, text string) error {
	if err := q.resolve(ctx, nil, q.o.directives); err != nil {
		return err
	}
	model, config, err := q.accept(ctx)
	if err != nil {
		return err
	}
	title := q.o.title.Value
	if title == "" && q.resolved.Config.Conversation.FromQuery {
		title = delegate.Title(text)
	}
	if q.conv, err = q.store.Create(ctx, convstore.New{
		Title: title, Hidden: q.o.hidden, ExpiresAt: q.expiry(),
		Profile: q.resolved.Profile, ProfileArg: q.resolved.ProfileArg, ProfileHash: q.resolved.ProfileHash, Model: model,
		Role:   q.o.role,
		Config: config,
	}); err != nil {
		return err
	}
	q.made = true
	q.log, err = q.store.Lock(ctx, q.conv.ID)
	return err
}
