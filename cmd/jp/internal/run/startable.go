package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/record"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// Startable does everything that a query does before its first request, but makes and changes no
// conversation: for a new query, and for one that goes on with the terminal's active conversation.
// It returns the errors at which they stop, each once, and a *ProfileError for each profile that
// they may name and not use; nil if both would start. It asks nobody and starts no program.
func (env *Env) Startable(ctx context.Context) []error {
	root, err := env.WS.Root()
	if err != nil {
		return []error{err}
	}
	j, err := env.WS.Gate.Judge(ctx, root)
	if err != nil {
		return []error{err}
	}
	if !j.OK() {
		return []error{j.Refusal()}
	}
	st, err := env.WS.Store(ctx)
	if err != nil {
		return []error{err}
	}
	if !env.Con.Globals.NoPersist {
		if err := st.Writable(); err != nil {
			return []error{err}
		}
	}
	if _, err := st.List(ctx, convstore.Filter{Hidden: true, Archived: true, Limit: 1}); err != nil {
		return []error{err} // it is damaged, or of another version
	}
	tape, err := record.Check(env.Con, env.WS)
	if err != nil {
		return []error{err}
	}
	was, asks, look := env.Tape, env.Con.Globals.NonInteractive, env.Servers.Look
	env.Tape, env.Con.Globals.NonInteractive, env.Servers.Look = tape, true, true
	defer func() { env.Tape, env.Con.Globals.NonInteractive, env.Servers.Look = was, asks, look }()
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }() // it starts nothing
	at, err := env.site(ctx, host)
	if err != nil {
		return []error{err}
	}
	fresh := &opening{site: at, req: Request{New: true}, Began: time.Now()}
	problems := env.try(ctx, fresh, nil)
	said := map[string]bool{}
	for _, p := range problems {
		said[p.Error()] = true
	}
	for _, err := range env.tryActive(ctx, fresh) {
		if !said[reason(err).Error()] {
			problems = append(problems, err)
		}
	}
	return problems
}

// ProfileError is a mistake in a profile that a query may name. A query starts without it.
type ProfileError struct{ Err error }

func (e *ProfileError) Error() string { return e.Err.Error() }
func (e *ProfileError) Unwrap() error { return e.Err }

// activeError is what is in the way of a query that goes on with the active conversation.
type activeError struct {
	id  convstore.ID
	err error
}

func (e *activeError) Error() string { return fmt.Sprintf("conversation %s: %v", e.id, e.err) }
func (e *activeError) Unwrap() error { return e.err }

// reason is err without the conversation that it is about.
func reason(err error) error {
	if active := (*activeError)(nil); errors.As(err, &active) {
		return active.err
	}
	return err
}

// tryActive tries a query that goes on with the terminal's active conversation, if there is one. It
// says nothing twice of a conversation that has the config of the new one that was tried.
func (env *Env) tryActive(ctx context.Context, fresh *opening) (problems []error) {
	id, err := env.Target(ctx, Request{})
	if err != nil {
		return []error{err}
	}
	if id == 0 {
		return nil
	}
	o := &opening{site: fresh.site, Began: time.Now()}
	if o.Conv, err = o.Store.Get(ctx, id); err != nil {
		return []error{err}
	}
	if o.Conv.Status == convstore.StatusRunning {
		return []error{&convstore.BusyError{ID: id}}
	}
	stored, err := o.Store.Config(ctx, id)
	if err != nil {
		return []error{err}
	}
	if o.Conv.Grant == nil && fresh.Resolved != nil && bytes.Equal(stored.JSON, fresh.Resolved.Stored()) {
		return nil
	}
	for _, err := range env.try(ctx, o, stored.JSON) {
		problems = append(problems, &activeError{id: id, err: err})
	}
	return problems
}

// try prepares a query up to its agent, and checks each profile that the query may name.
// stored is the config of a conversation that goes on.
func (env *Env) try(ctx context.Context, o *opening, stored []byte) (problems []error) {
	r := (*Run)(o)
	defer r.Close(ctx)
	err := o.resolve(ctx, stored, nil)
	if err == nil {
		_, _, err = o.accept(ctx)
	}
	if err == nil {
		_, err = r.Agent(ctx)
	}
	if err != nil {
		return []error{err}
	}
	if !o.Resolved.Config.Delegation.Enabled || len(o.Resolved.Config.Delegation.Profiles) == 0 {
		return nil
	}
	src, err := env.agentSources(ctx)
	var finder *profiles.Finder
	if err == nil {
		finder, err = profiles.NewFinder(src)
	}
	if err != nil {
		return []error{&ProfileError{err}}
	}
	for _, name := range o.Resolved.Config.Delegation.Profiles {
		found, err := finder.Find(name)
		if err == nil {
			err = env.profileStarts(ctx, o.Resolved.Config, src, found)
		}
		if err != nil {
			problems = append(problems, &ProfileError{err})
		}
	}
	return problems
}

// profileStarts resolves a profile as a delegation does, and checks its model and tools as its run
// does.
func (env *Env) profileStarts(ctx context.Context, cfg profiles.Config, src profiles.Sources, found profiles.Profile) error {
	p, err := env.profileAt(ctx, src, found, nil)
	if err == nil {
		for _, id := range append([]string{p.Model}, p.Others...) {
			if _, _, err = env.Model(ctx, cfg, id, models.Waits{}); err != nil {
				break
			}
		}
	}
	if err == nil || errors.As(err, new(*profiles.Error)) || errors.As(err, new(*tools.DefinitionError)) {
		return err
	}
	return fmt.Errorf("profile %s: %w", found.Name, err)
}
