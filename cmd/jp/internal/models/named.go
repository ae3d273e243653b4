package models

import (
	"errors"

	"jp/cmd/jp/internal/model"
	"jp/profiles"
)

// TitleKey is the setting that names the model of titles.
const TitleKey = "conversation.title.model"

// Named returns the settings that name a model, with the names. It omits settings without a
// value.
func Named(c profiles.Config) map[string][]string {
	all := map[string][]string{"assistant.model": c.Assistant.Named()}
	for key, name := range map[string]string{
		"assistant.escalate": c.Assistant.Escalate, "conversation.compact.model": c.Conversation.Compact.Model, TitleKey: c.Conversation.TitleModel,
	} {
		if name != "" {
			all[key] = []string{name}
		}
	}
	return all
}

// FindModel looks up the model that a setting names. The error says where it was written, and wraps
// the *model.Error of a model that does not exist.
func (set *Set) FindModel(r *profiles.Resolved, key, name string) (model.Info, *profiles.Error) {
	at := r.WrittenAt(key)
	wrong := func(msg, hint string) *profiles.Error {
		return &profiles.Error{File: at.File, Line: at.Line, Layer: at.Layer, Key: key, Msg: msg, Hint: hint}
	}
	id, err := r.Config.ResolveModel(name)
	var e *profiles.Error
	if errors.As(err, &e) {
		return model.Info{}, wrong(e.Msg, e.Hint)
	}
	info, err := model.Lookup(id, set.Providers(r.Config))
	var unknown *model.Error
	switch {
	case errors.As(err, &unknown):
		e = wrong(unknown.Message, unknown.Advice())
		e.Err = unknown
		return info, e
	case err != nil:
		return info, wrong(err.Error(), "")
	}
	return info, nil
}
