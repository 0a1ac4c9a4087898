//! A recording for a person who asks a server that runs: of a session that there is, and through the
//! gate like every call.

use super::{Call, Gate, GateError, Measured};
use crate::{reporter::Silent, targets::PARAMETER};
use protocol::{
    InstrumentId, Item, Report as AnyReport,
    artifact::ArtifactId,
    instruments::export::{Item as Piece, Report},
};
use serde_json::{Map, Value};

/// Seconds that sending a recording may take: one of 3 MB takes half of it at 20 kB/s.
const TIMEOUT_S: u32 = 300;

/// Processor time that it may use on the target, in milliseconds.
const MAX_CPU_MS: u32 = 30_000;

impl Gate {
    /// The target at which a result was stored, as far as this gate was told of it. Nobody is asked.
    pub fn stores(&self, id: ArtifactId) -> Option<String> {
        let place = self.places.iter().find(|place| place.remembers(id))?;
        Some(place.link.target().to_string())
    }

    /// Gets a recording from the target that stores it, whatever tools are offered. Nothing is
    /// connected for it: with the session, what was stored is gone. Dropping the future cancels it on
    /// the target, and that is audited too.
    ///
    /// # Errors
    ///
    /// Why there is none, with what to do next.
    pub async fn export(
        &self,
        id: ArtifactId,
        keep: &mut (dyn FnMut(Piece) + Send),
    ) -> Result<Report, GateError> {
        let target = self.stores(id).ok_or(GateError::StoredNowhere { id })?;
        let selection = self.selection.clone().and(InstrumentId::Export);
        let mut arguments = Map::from_iter([
            ("artifact".to_owned(), id.to_string().into()),
            ("timeout_s".to_owned(), TIMEOUT_S.into()),
            ("max_cpu_ms".to_owned(), MAX_CPU_MS.into()),
        ]);
        if self.form.names_target {
            arguments.insert(PARAMETER.to_owned(), target.into());
        }
        let call = Call { tool: InstrumentId::Export.name().to_owned(), arguments };
        let admitted = self.admitted(&call, &selection)?;
        let (place, tool) = (admitted.place, admitted.entry.name());
        let target = place.link.target();
        let mut entered = self.enter(target, tool, &Value::Object(admitted.own.clone()))?;
        let mut keep_piece = |item| {
            if let Item::Export(piece) = item {
                keep(piece);
            }
        };
        let result = match place.link.connected().await {
            Some(session) => self.ask(&admitted, &session, &Silent, &mut keep_piece).await,
            None => Err(GateError::SessionOver { id, target: target.to_string() }),
        };
        drop(admitted);
        let measured = result.as_ref().map(|answer| Measured {
            answer_bytes: 0,
            agent_cpu_ms: Some(answer.meta.overhead.agent_cpu_ms),
            redacted: Some(answer.meta.redacted),
        });
        entered.finish_as(measured.map_err(ToString::to_string))?;
        let report = *result?.report;
        let answered = report.id().name();
        let AnyReport::Export(report) = report else {
            let error = format!("the agent answered {answered} instead of export");
            return Err(GateError::Defect(error));
        };
        Ok(report)
    }
}
