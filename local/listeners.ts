/**
 * A set of callbacks for one kind of event. A listener that throws fails the emitter: they are our own code.
 */
export class Listeners<Event> {
  readonly #listeners = new Set<(event: Event) => void>();

  /** @returns a function that removes the listener again */
  add(listener: (event: Event) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  emit(event: Event): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}
